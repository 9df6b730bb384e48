"""Half precision: where sums are taken, and what autocast would make of a product."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which sums over pixels are taken: float32 for half precision, else `dtype`."""
    return torch.float32 if dtype in HALVES else dtype


def autocasts(x: Tensor) -> bool:
    """Whether autocast is on for the device of x."""
    device = x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def multiplies_in_half(x: Tensor) -> bool:
    """Whether a product with x gives half precision, because x has it or autocast casts it."""
    if x.dtype in HALVES:
        return True
    return (
        x.dtype == torch.float32
        and autocasts(x)
        and torch.get_autocast_dtype(x.device.type) in HALVES
    )


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """A context without autocast, for code that chooses its precision itself, on any device.

    Entered only where autocast is on, because an exported graph would keep it as a subgraph.
    """
    return torch.autocast(x.device.type, enabled=False) if autocasts(x) else nullcontext()
