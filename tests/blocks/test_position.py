"""The sinusoid, by its formula."""

import math

import pytest
import torch

import scalednl


@pytest.mark.parametrize(
    ("channels", "height", "width"), [(8, 3, 5), (6, 1, 1), (128, 16, 16), (2, 7, 2)]
)
def test_every_value_is_the_formulas(channels: int, height: int, width: int) -> None:
    """Row in the first half, column in the second; sine for even channels, cosine for odd."""
    x = torch.randn(2, channels, height, width, dtype=torch.float64)
    added = scalednl.SinusoidalPosition2d()(x) - x
    half = channels // 2
    for channel in range(channels):
        j = channel % half
        for row in range(height):
            for column in range(width):
                p = row if channel < half else column
                angle = p / 10000 ** (2 * (j // 2) / half)
                wanted = math.sin(angle) if j % 2 == 0 else math.cos(angle)
                assert added[0, channel, row, column].item() == pytest.approx(wanted, abs=1e-12)


def test_it_has_no_state_and_keeps_dtype_and_layout() -> None:
    """No parameters or buffers; half precision and channels_last come out as they went in."""
    position = scalednl.SinusoidalPosition2d()
    assert not position.state_dict()
    x = torch.randn(2, 8, 4, 4).bfloat16().contiguous(memory_format=torch.channels_last)
    z = position(x)
    assert z.dtype == torch.bfloat16
    assert z.stride() == x.stride()


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("shape", [(2, 7, 4, 4), (2, 8, 4)])
def test_bad_input(shape: tuple[int, ...]) -> None:
    """An odd number of channels or a missing axis is named."""
    with pytest.raises(ValueError, match=rf"even number of channels, but got.*{shape[1]}"):
        scalednl.SinusoidalPosition2d()(torch.randn(shape))
