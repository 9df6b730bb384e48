"""Sigmoid attention: every key is weighed by itself, instead of against all others."""

import torch
from torch import Tensor

import scalednl


@scalednl.register_attention
def sigmoid(theta: Tensor, phi: Tensor) -> Tensor:
    """A_ij is the sigmoid of theta_i . phi_j / sqrt(d), over N."""
    keys, d = phi.shape[-2:]
    return torch.sigmoid(theta @ phi.mT / d**0.5) / keys
