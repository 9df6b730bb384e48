"""Batch norm statistics re-estimated for a test.

Running statistics are an exponential average over the last steps, and lag behind weights that
change fast: the branch of a scaled block is of degree 4 in its weights. A plain average over some
training batches, with the weights held fixed, has no lag.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import update_bn


@contextmanager
def recalibrated(model: nn.Module, batches: Iterable[Tensor], *, keep: bool) -> Iterator[None]:
    """Use averages over `batches` as statistics; afterwards restore the old ones unless `keep`.

    Nothing else of the model changes. Over several processes the statistics are those of rank 0's
    part of the batches, as they are in training; all ranks get them.
    """
    buffers = _statistics(model)
    before = [buffer.clone() for buffer in buffers]
    update_bn(batches, model)
    # A data-parallel model sends buffers only before passes that need gradients.
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        for buffer in buffers:
            torch.distributed.broadcast(buffer, 0)
    try:
        yield
    finally:
        if not keep:
            with torch.no_grad():
                for buffer, value in zip(buffers, before, strict=True):
                    buffer.copy_(value)


def _statistics(model: nn.Module) -> list[Tensor]:
    """Running means, variances and batch counts of all batch norm layers."""
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    return [buffer for norm in norms for buffer in norm.buffers(recurse=False)]
