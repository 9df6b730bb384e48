"""Softmax attention of narrow heads on the processor: torch's fused kernel, some images at a time.

That kernel multiplies blocks of queries, keys and values. On the processor that was measured, an
AMD EPYC (docs/log.md), 4 channels take longer than 24, and 16, a whole register of AVX-512, are the
fastest. So heads that are narrower get channels of zeros, which change no number. Only some images
have them at a time, so that no more memory is kept than without.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from scalednl.ops.layout import autocasts

WIDTH = 16
"""Channels of a head at which the products are fastest"""
CHUNK = 2**19
"""Numbers in the wider queries of one chunk: they stay in the cache, and a call's cost is small"""

Queries = Float[Tensor, "batch heads pixels width"]
Keys = Float[Tensor, "batch heads keys width"]

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def has_narrow_heads(queries: Queries, keys: Keys) -> bool:
    """Whether `narrow_attention` is for these, rather than torch's own function."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    if queries.dtype != torch.float32 or queries.device.type != "cpu" or autocasts(queries):
        return False
    if queries.shape[-1] >= WIDTH or not queries.numel() or not keys.numel():
        return False
    # Whoever turned the kernel off shall not get it.
    return torch.backends.cuda.flash_sdp_enabled()


class _NarrowAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Queries, keys: Keys, values: Keys, scale: float) -> Queries:
        y, logs = _like(queries), queries.new_empty(queries.shape[:3])
        for some in _chunks(queries):
            wide = (_widened(t[some]) for t in (queries, keys, values))
            found, logs[some] = _forward(*wide, scale=scale)
            y[some] = found[..., : y.shape[-1]]
        ctx.save_for_backward(queries, keys, values, y, logs)
        ctx.scale = scale
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Queries) -> tuple[Queries, Keys, Keys, None]:
        queries, keys, values, y, logs = ctx.saved_tensors
        slopes = _like(queries), _like(keys), _like(values)
        for some in _chunks(queries):
            wide = [_widened(t[some]) for t in (grad, queries, keys, values, y)]
            found = _backward(*wide, logs[some], 0.0, False, scale=ctx.scale)
            for slope, wider in zip(slopes, found, strict=True):
                slope[some] = wider[..., : slope.shape[-1]]
        return (*slopes, None)


narrow_attention: Callable[[Queries, Keys, Keys, float], Queries] = _NarrowAttention.apply
"""softmax(scale theta phi^T) g, head by head; the heads of a pixel are side by side in memory"""


def _like(t: Queries) -> Queries:
    """Room for as many numbers, the heads of a pixel side by side."""
    batch, heads, pixels, width = t.shape
    return t.new_empty(batch, pixels, heads, width).transpose(1, 2)


def _chunks(queries: Queries) -> Iterator[slice]:
    batch, heads, pixels, _ = queries.shape
    step = max(1, CHUNK // (heads * pixels * WIDTH))
    return (slice(start, start + step) for start in range(0, batch, step))


def _widened(t: Queries) -> Float[Tensor, "batch heads pixels wide"]:
    return F.pad(t.transpose(1, 2), (0, WIDTH - t.shape[-1])).transpose(1, 2)
