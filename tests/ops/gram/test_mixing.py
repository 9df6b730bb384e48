"""The mixing matrix and its backward, against products over pixels and autograd."""

import pytest
import torch
from torch import Tensor

from scalednl.ops import reference
from scalednl.ops.gram.forward import centred_moments, gram_moments
from scalednl.ops.gram.mixing import KeyMoments, Projections, mixing_backward, mixing_matrix
from tests.support import assert_close

NAMES = ("theta", "phi", "g")


def _weights(biased: tuple[str, ...] = (), center: str | None = None) -> Projections:
    shapes = [(6, 4)] * 3 + [(4, 6)]
    theta, phi, g, out = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes)
    biases = {f"{name}_bias": torch.randn(6, dtype=torch.float64) for name in biased}
    factor = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    w = Projections(theta, phi, g, out, heads=2, factor=factor, center=center)  # type: ignore[arg-type]
    return w._replace(**biases)  # type: ignore[arg-type]


def _moments(center_or_bias: bool) -> tuple[Tensor, KeyMoments]:
    rows = torch.randn(3, 9, 4, dtype=torch.float64) + 1
    return rows, centred_moments(rows)[0] if center_or_bias else gram_moments(rows)


@pytest.mark.parametrize("center", [None, "keys", "keys+mean"])
@pytest.mark.parametrize("biased", [(), ("theta",), ("phi",), ("g",), NAMES], ids=str)
def test_the_matrix_is_the_branch(biased: tuple[str, ...], center: str | None) -> None:
    """P x + shift is out of the reference's attention, one factor per image."""
    w = _weights(biased, center)
    rows, keys = _moments(bool(biased) or center is not None)
    found = mixing_matrix(keys, w)
    u = torch.einsum("cbd,bpd->bpc", found.matrix, rows)
    u = u if found.shift is None else u + found.shift[:, None]
    embedded = []
    for weight, bias in zip(w[:3], w[4:7], strict=True):
        y = weight @ rows.mT
        embedded.append(y if bias is None else y + bias[:, None])
    assert isinstance(w.factor, Tensor)
    for image, factor in enumerate(w.factor):
        theta, phi, g = (v[image : image + 1] for v in embedded)
        usual = (9 * 3) ** -0.5
        theta = theta * (factor / usual)
        y = reference.nonlocal_attention(theta, phi, g, heads=2, center=center)  # type: ignore[arg-type]
        assert_close(u[image].mT, w.out @ y[0], 1e-10)


@pytest.mark.parametrize("center", [None, "keys"])
@pytest.mark.parametrize("about_mean", [False, True])
@pytest.mark.parametrize("kept", ["nothing", "half", "all"])
def test_backward_is_that_of_autograd(center: str | None, about_mean: bool, kept: str) -> None:
    """Gradients of weights and moments, whatever of P is known or computed again."""
    w = _weights(center=center)
    _, keys = _moments(about_mean or center is not None)
    scatter = keys.scatter.requires_grad_()
    mean = None if keys.mean is None else keys.mean.requires_grad_()
    keys = KeyMoments(keys.pixels, mean, scatter)
    mixing = mixing_matrix(keys, w)
    grad = torch.randn_like(mixing.matrix)
    inputs = [*w[:4], scatter] if mean is None or center else [*w[:4], scatter, mean]
    truth = torch.autograd.grad(mixing.matrix, inputs, grad)
    known = {"nothing": None, "half": mixing.half, "all": mixing}[kept]
    with torch.no_grad():
        found = mixing_backward(grad, keys, w, known=known, need_keys=True, need_weights=True)
    for ours, theirs in zip(found, truth, strict=False):
        assert ours is not None
        assert_close(ours, theirs, 1e-10)
    with torch.no_grad():
        less = mixing_backward(grad, keys, w, known=known, need_keys=False, need_weights=False)
    assert less == (None,) * 6


def test_what_is_linear() -> None:
    """Only without biases and without an added mean is u = P x alone."""
    plain = _weights()
    assert plain.is_linear()
    assert _weights(center="keys").is_linear()
    assert not _weights(center="keys+mean").is_linear()
    assert not _weights(("g",)).is_linear()
    assert plain.to(torch.float32).theta.dtype == torch.float32
    halved = plain.divided(torch.tensor(2.0).double())
    assert_close(halved.out, plain.out / 2, 1e-12)
    assert halved.theta is plain.theta


@pytest.mark.parametrize("center", [None, "keys"])
def test_an_empty_batch_with_one_factor_per_image(center: str | None) -> None:
    """No images give a stack of no matrices, and gradients of 0, not a division by 0."""
    w = _weights(center=center)._replace(factor=torch.ones(0, dtype=torch.float64))
    keys = centred_moments(torch.zeros(0, 9, 4, dtype=torch.float64))[0]
    matrix = mixing_matrix(keys, w).matrix
    assert matrix.shape == (4, 0, 4)
    for gradient in torch.autograd.grad(matrix.sum(), w[:4]):
        assert not gradient.any()
    found = mixing_backward(matrix, keys, w, known=None, need_keys=True, need_weights=True)
    assert found.theta is not None
    assert not found.theta.any()
