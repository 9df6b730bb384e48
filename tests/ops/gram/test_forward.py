"""Moments, the branch's statistics and its range, against sums over pixels."""

import pytest
import torch
from torch import Tensor

from scalednl.ops.gram.forward import (
    apply_matrix,
    branch_statistics,
    centred_moments,
    gram_moments,
    mix_forward,
    mix_normalised_forward,
    normalised,
    range_scale,
)
from scalednl.ops.gram.mixing import Projections, mixing_matrix
from scalednl.ops.masks import pixel_column
from tests.support import assert_close


def _rows() -> Tensor:
    return torch.randn(3, 10, 4, dtype=torch.float64) + 2


def _weights(theta_bias: Tensor | None = None) -> Projections:
    shapes = [(6, 4)] * 3 + [(4, 6)]
    theta, phi, g, out = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    return Projections(theta, phi, g, out, heads=2, factor=0.1, theta_bias=theta_bias)


def _exist() -> Tensor:
    mask = torch.rand(3, 10) > 0.4
    mask[1] = False
    return pixel_column(mask)


def test_moments() -> None:
    """About 0 they are x x^T, about the mean that minus N m m^T."""
    rows = _rows()
    about_zero, (about_mean, centred) = gram_moments(rows), centred_moments(rows)
    assert_close(about_zero.scatter.transpose(0, 1), rows.mT @ rows, 1e-12)
    mean = rows.mean(1)
    assert about_zero.mean is None
    assert about_mean.mean is not None
    assert centred is not None
    assert_close(about_mean.mean, mean, 1e-12)
    less = 10 * mean[:, :, None] * mean[:, None]
    assert_close(about_mean.scatter.transpose(0, 1), rows.mT @ rows - less, 1e-10)
    assert_close(centred, rows - mean[:, None], 1e-12)


def test_moments_of_pixels_that_exist() -> None:
    """They are those of the pixels by themselves, even beside NaN; without pixels all are 0."""
    rows, exist = _rows(), _exist()
    rows = rows.masked_fill(~exist, torch.nan)
    keys, centred = centred_moments(rows, exist)
    assert keys.mean is not None
    assert centred is not None
    assert isinstance(keys.pixels, Tensor)
    assert keys.pixels.tolist() == exist.sum((1, 2)).tolist()
    for image in (0, 2):
        alone, _ = centred_moments(rows[image][exist[image, :, 0]][None])
        assert alone.mean is not None
        assert_close(keys.mean[image], alone.mean[0], 1e-12)
        assert_close(keys.scatter[:, image], alone.scatter[:, 0], 1e-10)
    assert not keys.mean[1].any()
    assert not keys.scatter[:, 1].any()
    assert not centred.masked_select(~exist).any()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_statistics_are_those_of_the_branch(masked: bool, biased: bool) -> None:
    """Mean and biased variance of u over all pixels of the batch that exist, u not being formed."""
    rows, exist = _rows(), _exist() if masked else None
    w = _weights(torch.randn(6).double() if biased else None)
    keys, _ = centred_moments(rows, exist)
    mixing = mixing_matrix(keys, w)
    found = branch_statistics(mixing, keys)
    u = apply_matrix(rows, mixing.matrix, mixing.shift, residual=False)
    pixels = u.flatten(0, 1) if exist is None else u[exist[..., 0]]
    assert_close(found.mean, pixels.mean(0), 1e-10)
    assert_close(found.var, pixels.var(0, correction=0), 1e-10)
    gamma, beta = torch.randn(2, 4).double()
    matrix, constant = normalised(mixing, found.mean, found.var, gamma, beta, 1e-3)
    truth = gamma * (u - found.mean) / (found.var + 1e-3).sqrt() + beta
    assert_close(apply_matrix(rows, matrix, constant, residual=False), truth, 1e-10)


def test_moments_about_either_point_give_one_branch() -> None:
    """A bias of 0 takes the path over centred moments, and changes nothing but rounding."""
    rows, keys = _rows(), torch.randn(3, 7, 4, dtype=torch.float64) + 1
    plain = _weights()
    zero = plain._replace(phi_bias=torch.zeros(6).double())
    constant = torch.randn(4).double()
    for residual in (True, False):
        found, truth = (
            mix_forward(rows, keys, w, constant, residual=residual).rows for w in (zero, plain)
        )
        assert_close(found, truth, 1e-10)
    assert_close(mix_forward(rows, keys, plain, constant, residual=True).rows, truth + rows, 1e-10)


def test_the_range_is_scaled_only_where_it_must_be() -> None:
    """1 for usual x; for x of 1e9 in float32 a scale with which the variance of u is finite."""
    w = _weights().to(torch.float32)
    rows = _rows().float()
    assert range_scale(centred_moments(rows)[0], w) == 1
    mixed, statistics, scale, _ = mix_normalised_forward(1e9 * rows, w, None, None, eps=1e-5)
    assert scale > 1
    assert statistics.var.isfinite().all()
    assert statistics.var.min() > 0
    exact = mix_normalised_forward(1e9 * rows.double(), w.to(torch.float64), None, None, eps=1e-5)
    branch = mixed.rows.double() - 1e9 * rows.double()
    assert_close(branch + 1e9 * rows.double(), exact.mixed.rows, 1e-6)


def test_masked_rows_stay_themselves() -> None:
    """x + BN(P x) has the bits of x where no pixel exists, and the norm's mean elsewhere."""
    rows, exist = _rows(), _exist()
    z = mix_normalised_forward(rows, _weights(), None, None, exist, eps=1e-5).mixed.rows
    hidden = ~exist[..., 0]
    assert torch.equal(z[hidden], rows[hidden])
    branch = (z - rows)[exist[..., 0]]
    assert_close(branch.mean(0), torch.zeros(4).double(), 1e-9)
    assert_close(branch.var(0, correction=0), torch.ones(4).double(), 1e-3)
