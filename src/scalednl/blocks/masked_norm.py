"""Norms that only see the pixels of a mask."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from scalednl.ops.layout import Maps, accumulation_dtype
from scalednl.ops.masks import Mask

Norm = Callable[[Tensor], Tensor] | None


def reason_against_mask(norm: Norm) -> str:
    """Why `norm` cannot leave out the pixels outside a mask, or ""."""
    if norm is None or isinstance(norm, (_BatchNorm, nn.Identity)) or _is_frozen(norm):
        return ""
    return (
        f"a mask needs batch norm or none, but the norm is {norm}, whose statistics would include "
        "the pixels that do not exist"
    )


def _is_frozen(norm: object) -> bool:
    """Whether a norm that is not torch's applies fixed statistics, as a FrozenBatchNorm2d does."""
    if not isinstance(norm, nn.Module) or isinstance(norm, _NormBase):
        return False
    return all(
        isinstance(getattr(norm, f"running_{name}", None), Tensor) for name in ("mean", "var")
    )


def uses_batch(norm: Norm) -> bool:
    """Whether a norm that a mask can go with uses the statistics of its batch."""
    return isinstance(norm, _BatchNorm) and (norm.training or norm.running_mean is None)


def gathered_norm(u: Maps, norm: _BatchNorm, mask: Mask) -> Maps:
    """The norm called on the pixels of the mask alone, as one long image; 0 elsewhere.

    For batch norms that must be called: of all ranks, hooked, or of another class.
    """
    pixels = u.movedim(1, -1)[mask]
    line = pixels.mT.view(1, u.shape[1], -1, *[1] * (u.dim() - 3))
    placed = torch.zeros_like(u.movedim(1, -1))
    normed = norm(line).flatten(1)
    placed[mask] = normed.view(u.shape[1], -1).mT.to(placed.dtype)
    return placed.movedim(-1, 1)


def batch_statistics(u: Maps, mask: Mask) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and biased variance of each channel over the pixels of the mask, and u minus the mean.

    In at least float32; u minus the mean is 0 outside the mask.
    """
    u = u.to(accumulation_dtype(u.dtype))
    here = mask[:, None].to(u.dtype)
    axes = (0, *range(2, u.dim()))
    total = mask.sum().clamp_min(1)
    mean = (u * here).sum(axes, keepdim=True) / total
    centred = (u - mean) * here
    return mean.flatten(), centred.square().sum(axes) / total, centred
