"""Numbers of a map as colours."""

import numpy as np
import torch

from scalednl.lab.attention.colours import bare_picture, colour_range, palette, shrunk


def test_bare_pictures_are_one_pixel_per_entry() -> None:
    """Largest and smallest entry have the ends of the palette, signed maps white at 0."""
    values = torch.tensor([[-2.0, 0, 1], [0, 1, 0]])
    hot = np.asarray(bare_picture(values, "hot").convert("RGB"))
    assert hot.shape == (2, 3, 3)
    assert (hot[0, 0] == palette("hot")[0]).all()
    assert (hot[0, 2] == palette("hot")[255]).all()
    signed = np.asarray(bare_picture(values, "signed").convert("RGB"))
    assert signed[0, 1].min() > 240
    assert colour_range(values, "signed") == (-2, 2)
    assert colour_range(torch.zeros(2, 2), "signed") == (0, 1)
    assert shrunk(torch.ones(600, 20)).shape == (512, 20)
