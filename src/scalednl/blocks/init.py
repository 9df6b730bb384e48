"""The three initialisations of the paper's Table 2."""

import warnings
from collections.abc import Iterable

from torch import nn
from torch.nn.modules.conv import _ConvNd


def initialise(convs: Iterable[_ConvNd], init: str | float) -> None:
    """Draw the convolutions' weights: Kaiming normal (fan out), or N(0, init); biases are zero."""
    if init == 0:
        warnings.warn(
            "init=0.0 makes a dead block: with theta, phi, g and out all zero, each one's gradient "
            "is a product with another's output, hence zero for ever, and only a norm's bias can "
            'train. Use init="he" or a small standard deviation unless you reproduce the column '
            "sigma = 0 of the paper's Table 2",
            stacklevel=3,
        )
    for conv in convs:
        if init == "he":
            nn.init.kaiming_normal_(conv.weight, mode="fan_out")
        else:
            nn.init.normal_(conv.weight, std=float(init))
        if conv.bias is not None:
            nn.init.zeros_(conv.bias)
