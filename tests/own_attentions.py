"""Attentions of a user's own that tests register, and remove again."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from scalednl.attentions import ATTENTIONS, AttentionKind, register_attention


@contextmanager
def registered() -> Iterator[dict[str, AttentionKind]]:
    """`sigmoid`, a map, and `kernel`, an output with a faster order, until the end of the block."""
    before = dict(ATTENTIONS)
    try:

        @register_attention
        def sigmoid(theta: Tensor, phi: Tensor) -> Tensor:
            n, d = phi.shape[-2:]
            return torch.sigmoid(theta @ phi.mT / d**0.5) / n

        @register_attention
        def kernel(theta: Tensor, phi: Tensor, g: Tensor) -> Tensor:
            a = theta.exp() @ phi.exp().mT
            return a / a.sum(-1, keepdim=True) @ g

        @kernel.order("associative")
        def sums(theta: Tensor, phi: Tensor, g: Tensor) -> Tensor:
            queries, keys = theta.exp(), phi.exp()
            return queries @ (keys.mT @ g) / (queries @ keys.sum(-2)[..., None])

        yield {"sigmoid": sigmoid, "kernel": kernel}
    finally:
        ATTENTIONS.clear()
        ATTENTIONS.update(before)
