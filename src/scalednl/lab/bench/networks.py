"""The networks of Table 3 as steps: the same weights and images, another way to attend."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from scalednl.config import BlockConfig, StackConfig
from scalednl.lab.bench.blocks import use_rows
from scalednl.lab.records.methods import METHODS, with_heads
from scalednl.models import create_model
from scalednl.models.residual import ResidualNetwork

MODEL, CLASSES, SIDE = "preresnet56", 10, 32


@dataclass(frozen=True)
class Variant:
    """A network of the table: a method with its heads; `heads` 0 is the network without blocks."""

    method: str
    heads: int

    def __str__(self) -> str:
        return with_heads(self.method, self.heads)

    def network(self, device: str = "cpu") -> ResidualNetwork:
        """The network, with the same weights for every variant."""
        torch.manual_seed(0)
        network = create_model(MODEL, CLASSES, self._config())
        if self.heads and METHODS[self.method].rows:
            use_rows(network)
        network = network.to(device)
        return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def _config(self) -> StackConfig | None:
        if not self.heads:
            return None
        how = METHODS[self.method]
        block = BlockConfig(
            attention=how.attention,
            order=how.order,
            memory=how.memory,
            heads=self.heads,
            init="he",
            norm_init=1.0,
        )
        return StackConfig(block)


PLAIN = Variant("no blocks", 0)


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
