"""Other ways to write the same block, to compare with the best of them."""

import torch.nn.functional as F
from torch import Tensor, nn

from scalednl.blocks import NonLocal2d


class AssociativeRows(NonLocal2d):
    """The associative order as products on the (batch, pixels, channels) view, not convolutions."""

    def forward(self, x: Tensor) -> Tensor:
        """z, for training mode."""
        rows = x.flatten(2).transpose(1, 2)
        theta, phi, g = (
            F.linear(rows, conv.weight.flatten(1)).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for conv in (self.theta, self.phi, self.g)
        )
        context = (phi.mT @ g) * (rows.shape[1] * theta.shape[-1]) ** -0.5
        y = (theta @ context).transpose(1, 2).flatten(2)
        u = F.linear(y, self.out.weight.flatten(1)).transpose(1, 2).unflatten(2, x.shape[2:])
        assert self.norm is not None
        return x + self.norm(u)


def use_rows(network: nn.Module) -> None:
    """Make every block of a network an `AssociativeRows`."""
    for module in network.modules():
        if isinstance(module, NonLocal2d):
            module.__class__ = AssociativeRows
