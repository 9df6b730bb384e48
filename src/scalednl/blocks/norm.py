"""Batch norm taken apart, so that it can fold into the product before it and stay batch norm."""

from typing import TypeGuard

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Vector = Float[Tensor, " channels"]


CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def is_stock(module: nn.Module, kinds: tuple[type[nn.Module], ...]) -> bool:
    """Whether reading a module's parameters is as good as calling it: no subclass, no hooks."""
    return type(module) in kinds and not (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def folds_in_training(norm: nn.Module) -> TypeGuard[_BatchNorm]:
    """Whether `norm` is batch norm of this batch alone; a SyncBatchNorm also sees other ranks."""
    return is_stock(norm, NORMS)


def folds_in_evaluation(norm: nn.Module) -> TypeGuard[_BatchNorm]:
    """Whether `norm` would apply its running statistics now: a fixed gain and constant."""
    return (
        is_stock(norm, (*NORMS, nn.SyncBatchNorm))
        and not norm.training
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
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    unbiased = var * (count / (count - 1))
    for running, new in ((norm.running_mean, mean), (norm.running_var, unbiased)):
        new = new.to(running.dtype)
        if norm.momentum is None:
            running.add_((new - running) / norm.num_batches_tracked)
        else:
            running.mul_(1 - norm.momentum).add_(new, alpha=norm.momentum)
