"""The networks of Table 3 as steps: the same weights and images, another way to attend."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from scalednl.config import NonLocalConfig
from scalednl.lab.bench.forms import use_rows
from scalednl.models import create_model
from scalednl.models.residual import ResidualNetwork
from scalednl.options import Attention, Memory, Order

MODEL, CLASSES, SIDE = "preresnet56", 10, 32


@dataclass(frozen=True)
class Variant:
    """One line of the table; `heads` 0 is the network without blocks."""

    method: str
    heads: int
    attention: Attention = "scaled"
    order: Order = "auto"
    memory: Memory = "auto"
    rows: bool = False
    """The associative order by products on rows, where convolutions are slower"""

    @property
    def name(self) -> str:
        """What identifies it."""
        if not self.heads:
            return self.method
        return f"{self.method}, {self.heads} head{'s' if self.heads > 1 else ''}"

    def network(self, device: str = "cpu") -> ResidualNetwork:
        """The network, with the same weights for every variant."""
        torch.manual_seed(0)
        config = None
        if self.heads:
            config = NonLocalConfig(
                attention=self.attention,
                heads=self.heads,
                order=self.order,
                memory=self.memory,
                init="he",
                norm_init=1.0,
            )
        network = create_model(MODEL, CLASSES, config)
        if self.rows:
            use_rows(network)
        network = network.to(device)
        return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def images(batch: int, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Random channels_last images and labels, the same every time."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, 3, SIDE, SIDE, generator=generator)
    y = torch.randint(CLASSES, (batch,), generator=generator)
    return x.to(device=device, memory_format=torch.channels_last), y.to(device)


def training_iteration(variant: Variant, batch: int, device: str = "cpu") -> Callable[[], None]:
    """One iteration of training, as in the authors' release: forward, backward, SGD update."""
    network = variant.network(device)
    x, y = images(batch, device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(network(x), y).backward()
        optimizer.step()

    return step
