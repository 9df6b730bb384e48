"""Networks that blocks are inserted into."""

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IMAGES = torch.randn(2, 3, 32, 24, generator=torch.Generator().manual_seed(0))


def conv(inputs: int = 8, outputs: int = 8) -> nn.Conv2d:
    """A 3x3 convolution that keeps the size."""
    return nn.Conv2d(inputs, outputs, 3, padding=1)


class Head(nn.Module):
    """Scores from the mean over all pixels."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.linear(x.mean((2, 3)))


def network(body: nn.Module, channels: int = 8) -> nn.Sequential:
    """A stem, the body and a head."""
    return nn.Sequential(OrderedDict(stem=conv(3), body=body, head=Head(channels)))


class LoopingChildren(nn.Module):
    """Runs all its children, as timm's RegNet stages do."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = conv(), conv()

    def forward(self, x: Tensor) -> Tensor:
        """All children, one after the other."""
        for child in self.children():
            x = child(x)
        return x


class Random(nn.Module):
    """Dropout also in evaluation mode."""

    def forward(self, x: Tensor) -> Tensor:
        """Random."""
        return F.dropout(x, 0.5, training=True)


class Counting(nn.Module):
    """Adds the number of its calls."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Calls in a buffer."""
        self.calls += 1
        return x + self.calls


class Branches(nn.Module):
    """A network that is no Sequential: a module used twice, a tuple, a dictionary, one unused."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.shared = nn.Conv2d(8, 8, 3, padding=1)
        self.relu = nn.ReLU()
        self.down = nn.Conv2d(8, 16, 3, 2, padding=1)
        self.pair = Pair()
        self.unused = nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Scores, and what the pair gives."""
        x = self.relu(self.stem(x))
        x = self.relu(self.shared(self.shared(x)))
        x = self.relu(self.down(x))
        a, b = self.pair(x)
        return {"scores": self.head(a.mean((2, 3))), "rest": b}


class Pair(nn.Module):
    """A module with two outputs."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x, and its mean."""
        return x, x.mean((2, 3))


EXAMPLE = torch.randn(2, 3, 16, 12, generator=torch.Generator().manual_seed(0))
