"""Linear attentions that other networks use, in the place of ours: only y differs.

theta, phi and g are their queries q, keys k and values v, one head at a time; out, norm and the
residual are the block's. Written from the formulas of the papers, in the dtype of theta, phi and g.
Each has a `literal` form, every pixel or channel against every other, to be compared with.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from scalednl.blocks import NonLocal2d

Heads = Float[Tensor, "batch heads width pixels"]


class OtherAttention(NonLocal2d):
    """z = x + norm(out(y)) with another y."""

    def forward(self, x: Tensor, **_: Any) -> Tensor:
        """z, of the dtype of x, without masks and other keys."""
        theta, phi, g = (
            conv(x).flatten(2).unflatten(1, (self.heads, -1))
            for conv in (self.theta, self.phi, self.g)
        )
        u = self.out(self.attend(theta, phi, g).flatten(1, 2).view_as(x))
        assert self.norm is not None
        return (x + self.norm(u)).to(x.dtype)

    def attend(self, q: Heads, k: Heads, v: Heads) -> Heads:
        """y of every head."""
        raise NotImplementedError

    def literal(self, q: Heads, k: Heads, v: Heads) -> Heads:
        """The same, by the attention map itself."""
        raise NotImplementedError


class ReluLinear(OtherAttention):
    """y_i = sum_j (relu(q_i) . relu(k_j)) v_j / sum_j relu(q_i) . relu(k_j), as in EfficientViT.

    The sums over j come first. Cai et al., ICCV 2023, whose code computes it in float32.
    """

    EPS = 1e-6

    def attend(self, q: Heads, k: Heads, v: Heads) -> Heads:
        """Two small products per head, and the denominator."""
        q, k = q.relu(), k.relu()
        return (v @ k.mT) @ q / (k.sum(-1, keepdim=True).mT @ q + self.EPS)

    def literal(self, q: Heads, k: Heads, v: Heads) -> Heads:
        """By the map over pixels."""
        weights = torch.einsum("bhdi,bhdj->bhij", q.relu(), k.relu())
        weights = weights / (weights.sum(-1, keepdim=True) + self.EPS)
        return torch.einsum("bhij,bhdj->bhdi", weights, v)


class CrossCovariance(OtherAttention):
    """y_c = sum_e softmax_e(q_c . k_e / (|q_c| |k_e| tau)) v_e over channels c, e, as in XCiT.

    Channels attend to each other, as vectors over all pixels; tau = 1, where training starts.
    El-Nouby et al., NeurIPS 2021.
    """

    def attend(self, q: Heads, k: Heads, v: Heads) -> Heads:
        """One map over the channels of each head."""
        return (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT).softmax(-1) @ v

    def literal(self, q: Heads, k: Heads, v: Heads) -> Heads:
        """By cosines, channel by channel."""
        cosines = F.cosine_similarity(q.unsqueeze(3), k.unsqueeze(2), dim=-1)
        return torch.einsum("bhce,bhen->bhcn", cosines.exp() / cosines.exp().sum(-1, True), v)
