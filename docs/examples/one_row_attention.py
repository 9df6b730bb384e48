"""Softmax attention that is the same for all queries: a control for tasks that need more."""

import torch
from torch import Tensor

import scalednl


@scalednl.register_attention
def one_row(theta: Tensor, phi: Tensor) -> Tensor:
    """Every row of A is the mean of all rows of softmax attention."""
    queries, d = theta.shape[-2:]
    rows = torch.softmax(theta @ phi.mT / d**0.5, -1)
    return rows.mean(-2, keepdim=True).expand(*rows.shape[:-2], queries, -1)
