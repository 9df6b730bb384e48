"""Scores on maps whose answer is known, and the fast ways against the whole map."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import scalednl
from scalednl.analysis import capture_attention, factors
from scalednl.analysis.factors import Factors
from scalednl.analysis.kept import branch, kept_by_view
from scalednl.analysis.scores import effective_keys, key_share, query_dependence, score_maps
from scalednl.ops.options import Attention, View
from tests.support import assert_close, randomise


def _map(matrix: Tensor) -> Factors:
    """Factors of a given map: theta is the map, phi the identity."""
    keys = matrix.shape[-1]
    return Factors(matrix, torch.eye(keys, dtype=matrix.dtype), matrix.new_ones(()), False)


def _brute_force(a: Tensor, norms: Tensor) -> dict[str, float]:
    """Every score by its definition, from the whole map."""
    queries, keys = a.shape
    columns = a.mean(0)
    spread = a.var(correction=0)
    units = a / a.norm(dim=1, keepdim=True)
    apart = [(1 - units[i] @ units[k]) / 2 for i in range(queries) for k in range(i)]
    p = a.abs() / a.abs().sum(1, keepdim=True)
    effective = (-torch.xlogy(p, p).sum(1)).exp().mean()

    def correlation(v: Tensor) -> Tensor:
        return torch.corrcoef(torch.stack([v, norms]))[0, 1]

    return {
        "key_share": float(columns.var(correction=0) / spread),
        "query_dependence": float(torch.stack(apart).mean()),
        "norm_correlation_mean": float(correlation(columns)),
        "norm_correlation_rms": float(correlation(a.square().mean(0).sqrt())),
        "effective_keys": float(effective),
        "effective_key_share": float(effective / keys),
    }


@settings(deadline=None, max_examples=30)
@given(
    st.tuples(st.integers(2, 17), st.integers(3, 19), st.integers(2, 5)),
    st.booleans(),
    st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 99),
    st.sampled_from([7, 1 << 20]),
)
def test_the_fast_ways_agree_with_the_whole_map(
    sizes: tuple[int, int, int], softmax: bool, dtype: torch.dtype, seed: int, chunk: int
) -> None:
    """Small matrices and chunks of rows give what the definitions give, at any odd size."""
    queries, keys, width = sizes
    torch.manual_seed(seed)
    theta, phi = torch.randn(2, queries, width, dtype=dtype), torch.randn(2, keys, width).to(dtype)
    maps = Factors(theta, phi, torch.tensor([0.3, 0.7], dtype=dtype), softmax)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factors, "CHUNK", chunk)
        found = score_maps(maps, phi.norm(dim=-1))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    for index in range(2):
        truth = _brute_force(maps.at(index).whole().double(), phi[index].norm(dim=-1).double())
        assert found.keys() == truth.keys()
        for name, value in truth.items():
            assert abs(found[name][index] - value) <= tolerance * max(1, abs(value)), name


def test_vertical_lines() -> None:
    """All queries with one row: the key explains everything, and the query nothing."""
    a = torch.randn(1, 9).expand(6, 9)
    assert key_share(_map(a)) == pytest.approx(1)
    assert query_dependence(_map(a)) == pytest.approx(0, abs=1e-9)


def test_horizontal_lines() -> None:
    """Entries that depend on the query alone: no share for the key, n effective keys of n."""
    a = torch.randn(6, 1).expand(6, 9)
    assert key_share(_map(a)) == pytest.approx(0, abs=1e-9)
    assert effective_keys(_map(a)) == pytest.approx(9)


def test_the_identity() -> None:
    """Every query looks at itself alone: no lines, orthogonal rows, one effective key."""
    a = torch.eye(8)
    assert key_share(_map(a)) == pytest.approx(0, abs=1e-9)
    assert query_dependence(_map(a)) == pytest.approx(0.5)
    assert effective_keys(_map(a)) == pytest.approx(1)


@pytest.mark.parametrize("softmax", [True, False])
def test_a_uniform_map(softmax: bool) -> None:
    """A constant map has no lines, equal rows, and looks at every key."""
    ones = torch.ones(5, 1), torch.ones(7, 1), torch.ones(())
    found = score_maps(Factors(*ones, softmax), torch.arange(7.0))
    assert found["key_share"] == 0
    assert found["query_dependence"] == pytest.approx(0, abs=1e-9)
    assert found["norm_correlation_mean"] == found["norm_correlation_rms"] == 0
    assert found["effective_key_share"] == pytest.approx(1)


def test_a_rank_one_map() -> None:
    """a_i b_j with positive a: one direction of rows; with signs that cancel: half are opposite.

    Then no share is the key's alone, though every row has the same shape.
    """
    b = torch.tensor([1.0, 2, 3, 5])
    positive, signed = torch.tensor([1.0, 3]), torch.tensor([-1.0, 1])
    assert query_dependence(_map(positive[:, None] * b)) == pytest.approx(0, abs=1e-7)
    assert query_dependence(_map(signed[:, None] * b)) == pytest.approx(1)
    assert key_share(_map(signed[:, None] * b)) == pytest.approx(0, abs=1e-9)


def test_magnitude_alone_correlates_with_the_norm_fully() -> None:
    """A_ij = |theta_i| |phi_j| follows the key's norm exactly; a map of zeros follows nothing."""
    theta, phi = torch.rand(6, 1), torch.rand(9, 1)
    found = score_maps(Factors(theta, phi, torch.ones(()), False), phi.squeeze(1))
    assert found["norm_correlation_mean"] == pytest.approx(1)
    assert found["norm_correlation_rms"] == pytest.approx(1)
    nothing = score_maps(Factors(theta * 0, phi, torch.ones(()), False), phi.squeeze(1))
    assert all(value == 0 for name, value in nothing.items() if name != "query_dependence")
    assert nothing["query_dependence"] == 0.5


@pytest.mark.parametrize("attention", ["scaled", "softmax"])
def test_what_a_view_keeps(attention: Attention) -> None:
    """The branch of a view is the block's with that view; the base keeps all of itself."""
    block = randomise(scalednl.NonLocal2d(8, attention=attention, heads=2, bias=True)).eval()
    x = torch.randn(3, 8, 5, 5)
    views: tuple[View, ...] = ("magnitude", "direction")
    with capture_attention(block) as seen:
        block(x)
    assert torch.allclose(kept_by_view(seen[0], "base"), torch.ones(3).double())
    for view in views:
        other = scalednl.NonLocal2d(
            8, attention=attention, view=view, heads=2, bias=True, norm=False
        )
        other.load_state_dict(block.state_dict(), strict=False)
        assert other.out.bias is not None
        u = other(x) - x - other.out.bias.view(-1, 1, 1)
        assert_close(branch(seen[0], view), u.detach(), 1e-5)
        assert ((kept := kept_by_view(seen[0], view)) >= 0).all()
        assert (kept < 1).all()


def test_equal_lengths_keep_all_in_their_directions() -> None:
    """If all embeddings have one length, direction keeps everything of scaled attention."""
    block = scalednl.NonLocal2d(2, heads=1, init="he").eval()
    angle = torch.rand(1, 1, 4, 4) * 6
    with torch.no_grad():
        for conv in (block.theta, block.phi):
            conv.weight.copy_(torch.eye(2)[..., None, None])
    with capture_attention(block) as seen:
        block(3 * torch.cat([angle.sin(), angle.cos()], 1))
    assert kept_by_view(seen[0], "direction") == pytest.approx(1)


def test_a_view_is_asked_of_a_base_block() -> None:
    """A block trained with a view is refused by name."""
    block = scalednl.NonLocal2d(8, view="direction")
    with capture_attention(block) as seen:
        block(torch.randn(1, 8, 4, 4))
    with pytest.raises(ValueError, match="trained with view='direction'"):
        kept_by_view(seen[0], "magnitude")


@pytest.mark.parametrize("softmax", [False, True])
def test_maps_of_no_numbers_have_no_scores(softmax: bool) -> None:
    """A NaN or an infinity in one map makes its scores NaN, and leaves the other map's alone."""
    torch.manual_seed(0)
    theta, phi = torch.randn(2, 5, 3), torch.randn(2, 6, 3)
    norms = phi.norm(dim=-1)
    fine = score_maps(Factors(theta[1:], phi[1:], torch.ones(1), softmax), norms[1:])
    for bad in (torch.nan, torch.inf):
        broken = theta.clone()
        broken[0, 2, 1] = bad
        for name, score in score_maps(Factors(broken, phi, torch.ones(2), softmax), norms).items():
            assert score[0].isnan()
            assert_close(score[1:], fine[name], 1e-6, name)
