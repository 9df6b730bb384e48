"""Batch norm taken apart, so that it can fold into the product before it and stay batch norm."""

from contextlib import AbstractContextManager, nullcontext
from typing import TypeGuard

import torch
from torch import nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.nn.modules.batchnorm import _BatchNorm

from scalednl.blocks.plain import is_stock
from scalednl.ops.gram.forward import Vector

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def folds_in_training(norm: nn.Module) -> TypeGuard[_BatchNorm]:
    """Whether `norm` is batch norm of this batch alone; a SyncBatchNorm also sees other ranks."""
    return is_stock(norm, NORMS)


def folds_in_evaluation(norm: nn.Module, training: bool | None = None) -> TypeGuard[_BatchNorm]:
    """Whether `norm` would apply its running statistics: a fixed gain and constant.

    `training` None is the mode it is in now.
    """
    return (
        is_stock(norm, (*NORMS, nn.SyncBatchNorm))
        and not (norm.training if training is None else training)
        and norm.running_mean is not None
    )


def evaluation_affine(norm: _BatchNorm, dtype: torch.dtype) -> tuple[Vector, Vector]:
    """The gain and constant that `norm` applies when it uses its running statistics."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    gain = (norm.running_var.to(dtype) + norm.eps).rsqrt()
    if norm.weight is not None:
        gain = norm.weight.to(dtype) * gain
    constant = -gain * norm.running_mean.to(dtype)
    return gain, constant if norm.bias is None else constant + norm.bias.to(dtype)


@torch.no_grad()
def update_running_statistics(norm: _BatchNorm, mean: Vector, var: Vector, count: int) -> None:
    """What `norm` does to its buffers in training, given the batch's mean and biased variance."""
    if not (norm.training and norm.track_running_stats):
        return
    assert norm.running_mean is not None
    assert norm.running_var is not None
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    unbiased = var * (count / (count - 1))
    for running, new in ((norm.running_mean, mean), (norm.running_var, unbiased)):
        with _unseen_by_autograd(running):
            _move_towards(running, new.to(running.dtype), norm)


def _move_towards(running: Vector, new: Vector, norm: _BatchNorm) -> None:
    if norm.momentum is not None:
        running.mul_(1 - norm.momentum).add_(new, alpha=norm.momentum)
    elif norm.num_batches_tracked is not None:
        running.add_((new - running) / norm.num_batches_tracked)


def _unseen_by_autograd(buffer: Vector) -> AbstractContextManager[object]:
    """As torch's own batch norm does it: a graph that holds the buffer may still go backward.

    The same norm may stand in a graph twice, once folded and once apart.
    """
    if torch.compiler.is_compiling():
        return nullcontext()
    return _unsafe_preserve_version_counter(buffer)
