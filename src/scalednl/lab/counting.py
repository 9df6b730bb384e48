"""Exact counts: bytes stored for backward, multiply-adds."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


def bytes_kept(module: nn.Module, x: Tensor, **named: Tensor) -> int:
    """Bytes that one forward pass stores for backward: distinct storages, without parameters."""
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    seen: dict[int, torch.UntypedStorage] = {}

    # Nothing is handed on: a result that its own graph held would never be freed.
    def note(tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage

    with torch.autograd.graph.saved_tensors_hooks(note, _never):
        module(x, **named)
    return sum(storage.nbytes() for storage in seen.values())


def _never(_: None) -> Tensor:
    raise RuntimeError("what was only counted cannot be differentiated")


def multiply_adds(step: Callable[[], object]) -> int:
    """Multiply-adds of all matrix products and convolutions that one run of a step does.

    A step with gradients must take them by `backward()`: torch's counter knows no `autograd.grad`.
    """
    # torch's counter does not know the in-place product with an accumulator.
    known = {torch.ops.aten.baddbmm_: lambda _, a, b, **__: 2 * a[0] * a[1] * a[2] * b[2]}
    with FlopCounterMode(display=False, custom_mapping=known) as counter:
        step()
    return int(counter.get_total_flops()) // 2
