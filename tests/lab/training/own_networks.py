"""Files with networks of a user's own, for tests."""

from pathlib import Path

SOURCE = """
import random
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.Dropout(0.2))
        self.head = nn.Linear(16, num_classes)

    def forward(self, x):
        x = self.body(self.stem(x))
        if self.training:
            x = x * (1 + 0.1 * random.random())
        return self.head(x.mean((2, 3)))


def build(num_classes):
    return Net(num_classes)


class Pair(Net):
    def forward(self, x):
        return super().forward(x), 1


class Other(Net):
    def forward(self, x):
        return super().forward(x)[:, :-1]


class Moody(Net):
    def forward(self, x):
        return super().forward(x) + torch.rand(1)


class Infinite(Net):
    def forward(self, x):
        return super().forward(x) / 0


class Flat(Net):
    def __init__(self, num_classes):
        super().__init__(num_classes)
        self.head = nn.Linear(16 * 4 * 3, num_classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).view(len(x), -1))


class Unused(Net):
    def __init__(self, num_classes):
        super().__init__(num_classes)
        self.unused = nn.Linear(2, 2)


class Strange(Net):
    def __init__(self, num_classes):
        super().__init__(num_classes)
        self.register_buffer("phase", torch.zeros(2, dtype=torch.complex64))


def frozen(num_classes):
    return Net(num_classes).requires_grad_(False)


def lazy(num_classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(num_classes))


def script(num_classes):
    return torch.jit.trace(nn.Sequential(nn.Flatten(), nn.Linear(12, num_classes)),
                           torch.zeros(1, 3, 2, 2))


def number(num_classes):
    return 3


def classes(count):
    return Net(count)
"""


def write_own(folder: Path, name: str = "mine.py", source: str = SOURCE) -> Path:
    """A file of networks."""
    path = folder / name
    path.write_text(source)
    return path
