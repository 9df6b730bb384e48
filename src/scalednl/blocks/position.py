"""The fixed two-dimensional sinusoid that the authors' release adds before the blocks."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from scalednl.blocks.checks import fx_node


class SinusoidalPosition2d(nn.Module):
    """Adds x[:, :, row, column] += p(row, column), for any height and width; no parameters.

    The first half of the channels encodes the row, the second half the column. Within a half of
    width D, channel j at position q has the angle q / 10000^(2 floor(j / 2) / D): its sine for even
    j, its cosine for odd j. The paper does not mention it; the authors' release has it.
    """

    def forward(
        self, x: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch channels height width"]:
        """X plus the encoding."""
        if (node := fx_node(self, x)) is not None:
            return node
        if x.dim() != 4 or x.shape[1] % 2 or not x.is_floating_point():
            raise ValueError(
                "SinusoidalPosition2d takes a floating-point (batch, channels, height, width) "
                f"tensor with an even number of channels, but got {x.dtype} {tuple(x.shape)}"
            )
        _, channels, height, width = x.shape
        rows = _sinusoid(height, channels // 2, x)[:, :, None].expand(-1, -1, width)
        columns = _sinusoid(width, channels // 2, x)[:, None].expand(-1, height, -1)
        return x + torch.cat([rows, columns]).to(x.dtype)


def _sinusoid(length: int, width: int, like: Tensor) -> Float[Tensor, "width length"]:
    wide = torch.float64 if like.dtype == torch.float64 else torch.float32
    positions = torch.arange(length, device=like.device, dtype=wide)
    channel = torch.arange(width, device=like.device)
    rates = 10000.0 ** (-2 * (channel // 2).to(wide) / width)
    angles = rates[:, None] * positions
    return torch.where(channel[:, None] % 2 == 0, angles.sin(), angles.cos())
