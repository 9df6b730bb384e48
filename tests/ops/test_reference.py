"""The reference against sums written out pixel by pixel."""

import math

import pytest
import torch
from torch import Tensor

from scalednl.attentions import ATTENTIONS
from scalednl.ops import reference
from scalednl.options import VIEWS
from tests.support import assert_close


def _by_hand(
    theta: Tensor, phi: Tensor, g: Tensor, heads: int, attention: str, view: str
) -> Tensor:
    """y from nested loops over images, heads, queries and keys."""
    batch, embed, pixels = theta.shape
    d, keys = embed // heads, phi.shape[2]
    y = torch.zeros_like(theta)
    for b in range(batch):
        for h in range(heads):
            rows = slice(h * d, (h + 1) * d)
            for i in range(pixels):
                weights = []
                for j in range(keys):
                    t, p = theta[b, rows, i], phi[b, rows, j]
                    dot = float(t @ p)
                    if view == "magnitude":
                        dot = float(t.norm() * p.norm())
                    if view == "direction":
                        dot = dot / float(t.norm() * p.norm())
                    weights.append(dot)
                if attention == "softmax":
                    exponentials = [math.exp(w / math.sqrt(d)) for w in weights]
                    weights = [e / sum(exponentials) for e in exponentials]
                elif attention == "mean":
                    weights = [w / keys for w in weights]
                else:
                    weights = [w / math.sqrt(keys * d) for w in weights]
                for j, weight in enumerate(weights):
                    y[b, rows, i] += weight * g[b, rows, j]
    return y


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("heads", [1, 2])
def test_reference_is_the_papers_sum(attention: str, view: str, heads: int) -> None:
    """The reference equals loops over every query and key, with fewer keys than queries too."""
    theta = torch.randn(2, 4, 5, dtype=torch.float64)
    phi, g = torch.randn(2, 2, 4, 3, dtype=torch.float64)
    y = reference.nonlocal_attention(theta, phi, g, heads=heads, attention=attention, view=view)  # type: ignore[arg-type]
    assert_close(y, _by_hand(theta, phi, g, heads, attention, view), 1e-12)


def test_dropping_the_scale_leaves_the_width() -> None:
    """scale=False drops sqrt(N) and keeps sqrt(d)."""
    theta, phi = torch.randn(2, 1, 6, 5, dtype=torch.float64)
    scaled = reference.attention_map(theta, phi, heads=2)
    bare = reference.attention_map(theta, phi, heads=2, scale=False)
    assert_close(bare, scaled * math.sqrt(5), 1e-12)


def test_batch_norm_is_torchs() -> None:
    """The reference's batch norm equals torch's in training mode."""
    u = torch.randn(3, 4, 7, dtype=torch.float64)
    gamma, beta = torch.randn(2, 4, dtype=torch.float64)
    truth = torch.nn.functional.batch_norm(u, None, None, gamma, beta, training=True, eps=1e-3)
    assert_close(reference.batch_norm(u, gamma, beta, 1e-3), truth, 1e-12)
