"""Scores on maps whose answer is known, and the fast ways against the complete map."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import scalednl
from scalednl.inspection import capture_attention, factors
from scalednl.inspection.factors import Factors
from scalednl.inspection.scores import (
    SOFTMAX_ONLY,
    key_share,
    query_angles,
    rank_correlation,
    ranks,
    score_maps,
    unary_ranks,
)
from scalednl.lab.attention.scoring import score_block
from tests.support import assert_close


def _map(matrix: Tensor) -> Factors:
    """Factors of a given map: theta is the map, phi the identity."""
    keys = matrix.shape[-1]
    return Factors(matrix, torch.eye(keys, dtype=matrix.dtype), matrix.new_ones(()), False)


def _vertical(a: Tensor) -> Tensor:
    """The key's main effect over itself and the interaction, entry by entry."""
    key = a.mean(0) - a.mean()
    pair = a - a.mean(0) - a.mean(1, keepdim=True) + a.mean()
    return key.square().mean() / (key.square().mean() + pair.square().mean())


def _spearman(first: Tensor, second: Tensor) -> Tensor:
    """Pearson's correlation of ranks found by counting; equal values share a rank."""
    ranks = []
    for values in (first.double(), second.double()):
        below = (values[None] < values[:, None]).sum(1)
        equal = (values[None] == values[:, None]).sum(1)
        ranks.append(below.double() + (equal.double() + 1) / 2)
    return torch.corrcoef(torch.stack(ranks))[0, 1]


def _brute_force(a: Tensor, theta: Tensor, phi: Tensor, softmax: bool) -> dict[str, float]:
    """Every score by its definition, from the complete map."""
    queries, keys = a.shape
    centred = a - a.mean(1, keepdim=True)
    rows = centred / centred.norm(dim=1, keepdim=True)
    apart = [(1 - rows[i] @ rows[k]) / 2 for i in range(queries) for k in range(i)]
    unary, middle = phi @ theta.mean(0), phi - phi.mean(0)
    cosine = torch.cosine_similarity(middle, theta.mean(0, keepdim=True))
    directions = theta / theta.norm(dim=1, keepdim=True)
    squares = torch.linalg.svdvals(a).square()
    longest = middle.norm(dim=1).argsort()[-max(1, keys // 100) :]
    found = {
        "key_share": _vertical(theta @ phi.T),
        "vertical_share": _vertical(a),
        "length_rank": _spearman(unary, middle.norm(dim=1)),
        "cosine_rank": _spearman(unary, cosine),
        "long_keys_share": centred[:, longest].square().sum() / centred.square().sum(),
        "query_angles": 1 - directions.mean(0).norm(),
        "query_dependence": torch.stack(apart).mean(),
        "rank_one_energy": squares[0] / squares.sum(),
    }
    if softmax:
        effective = (-torch.xlogy(a, a).sum(1)).exp().mean()
        found["top_keys_share"] = a.sum(0).sort().values[-max(1, keys // 100) :].sum() / queries
        found |= {"effective_keys": effective, "effective_key_share": effective / keys}
    return {name: float(value) for name, value in found.items()}


@settings(deadline=None, max_examples=30)
@given(
    st.tuples(st.integers(3, 17), st.sampled_from([3, 4, 11, 230]), st.integers(2, 5)),
    st.booleans(),
    st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 99),
    st.sampled_from([7, 1 << 20]),
)
def test_the_fast_ways_agree_with_the_complete_map(
    sizes: tuple[int, int, int], softmax: bool, dtype: torch.dtype, seed: int, chunk: int
) -> None:
    """Small matrices and groups of maps give what the definitions give, at any odd size."""
    queries, keys, width = sizes
    torch.manual_seed(seed)
    theta, phi = torch.randn(2, queries, width, dtype=dtype), torch.randn(2, keys, width).to(dtype)
    maps = Factors(theta, phi, torch.tensor([0.3, 0.7], dtype=dtype), softmax)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factors, "CHUNK", chunk)
        found = score_maps(maps)
    tolerance = 3e-5 if dtype == torch.float32 else 1e-10
    for index in range(2):
        whole = maps.at(index).complete().double()
        truth = _brute_force(whole, theta[index].double(), phi[index].double(), softmax)
        assert found.keys() == truth.keys()
        for name, value in truth.items():
            assert abs(found[name][index] - value) <= tolerance * max(1, abs(value)), name


@pytest.mark.parametrize("softmax", [True, False])
def test_few_long_keys_are_noticed(softmax: bool) -> None:
    """Long keys of all directions take nearly all attention: ranks do not see it, the share does.

    Keys of equal lengths have the share of two keys in 256.
    """
    torch.manual_seed(0)
    theta = torch.randn(1, 256, 8, dtype=torch.float64) + 2
    directions = torch.nn.functional.normalize(torch.randn(1, 256, 8, dtype=torch.float64), dim=-1)
    found = {}
    for name, length in (("equal", 1.0), ("long", 30.0)):
        phi = directions.clone()
        phi[:, :2] *= length
        maps = Factors(theta, phi, torch.ones(1, dtype=torch.float64), softmax)
        found[name] = {key: float(value) for key, value in score_maps(maps).items()}
    assert abs(found["long"]["length_rank"]) < 0.2
    assert found["long"]["long_keys_share"] > 0.8
    assert found["equal"]["long_keys_share"] < 0.05


def test_equal_embeddings_have_equal_key_shares() -> None:
    """Softmax, scaled and shifted keys of one theta and phi: one share, to 1e-6."""
    theta, phi, factor = torch.randn(3, 40, 6), torch.randn(3, 30, 6), torch.rand(3) + 0.1
    shares = [
        key_share(Factors(theta, keys, factor, softmax))
        for keys in (phi, phi + 5 * torch.randn(3, 1, 6))
        for softmax in (True, False)
    ]
    for share in shares:
        assert (share - shares[0]).abs().max() <= 1e-6
    # In float64, because 5 is added to numbers of size 1.
    wide = Factors(theta.double(), phi.double(), factor.double(), softmax=True)
    moved = Factors(theta.double(), phi.double() + torch.randn(3, 1, 6), factor.double(), True)
    for name, score in score_maps(wide).items():
        assert_close(score_maps(moved)[name], score, 1e-9, name)


def test_untrained_networks_have_equal_key_shares() -> None:
    """Softmax and scaled blocks with the same theta and phi weights in an untrained PreResNet-20.

    The first block's `key_share` is the same to 1e-6 and its `vertical_share` is not.
    """
    configs = [
        scalednl.StackConfig(scalednl.BlockConfig(attention=a, init="he"))
        for a in ("scaled", "softmax")
    ]
    scaled, softmax = (scalednl.create_model("preresnet20", blocks=c).eval() for c in configs)
    softmax.load_state_dict(copy.deepcopy(scaled.state_dict()))
    found = []
    for model in (scaled, softmax):
        with torch.no_grad(), capture_attention(model) as seen:
            model(torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1)))
        found.append(score_block(seen[0]).maps)
    assert (found[0]["key_share"] - found[1]["key_share"]).abs().max() <= 1e-6
    assert torch.equal(found[0]["key_share"], found[0]["vertical_share"])
    assert (found[1]["key_share"] - found[1]["vertical_share"]).abs().max() > 0.01


def test_vertical_lines() -> None:
    """If all queries have one row, the key explains everything and rows do not differ."""
    found = score_maps(_map(torch.randn(1, 9).expand(6, 9)))
    assert found["vertical_share"] == pytest.approx(1)
    assert found["rank_one_energy"] == pytest.approx(1)
    assert found["query_dependence"] == pytest.approx(0, abs=1e-9)


def test_horizontal_lines_are_neither_key_nor_pair() -> None:
    """The query's main effect is left out: added to a map, it changes no share and no row shape."""
    a = torch.randn(6, 9, dtype=torch.float64)
    with_lines = a + 3 * torch.randn(6, 1, dtype=torch.float64)
    for name in ("vertical_share", "query_dependence"):
        assert_close(score_maps(_map(with_lines))[name], score_maps(_map(a))[name], 1e-9, name)
    lines = score_maps(_map((with_lines - a).expand(6, 9)))
    assert lines["vertical_share"] == lines["query_dependence"] == 0


def test_the_identity() -> None:
    """Every query looks at itself alone: no lines, and one of n equal singular values."""
    found = score_maps(_map(torch.eye(8)))
    assert found["vertical_share"] == pytest.approx(0, abs=1e-9)
    assert found["rank_one_energy"] == pytest.approx(1 / 8)
    assert found["query_dependence"] == pytest.approx((1 + 1 / 7) / 2)


def test_a_sharp_softmax_map() -> None:
    """Logits of 100 on one key: it gets all attention, and is the one effective key."""
    phi = torch.eye(150)[:, :1]
    found = score_maps(Factors(torch.full((5, 1), 100.0), phi, torch.ones(()), True))
    assert found["top_keys_share"] == pytest.approx(1)
    assert found["effective_keys"] == pytest.approx(1)


@pytest.mark.parametrize("softmax", [True, False])
def test_a_uniform_map(softmax: bool) -> None:
    """A constant map has no lines and equal rows; softmax looks at every key."""
    found = score_maps(Factors(torch.ones(5, 1), torch.ones(7, 1), torch.ones(()), softmax))
    for name in ("key_share", "vertical_share", "length_rank", "cosine_rank", "query_dependence"):
        assert found[name] == 0, name
    assert found["rank_one_energy"] == pytest.approx(1)
    assert (set(found) >= set(SOFTMAX_ONLY)) == softmax
    if softmax:
        assert found["effective_key_share"] == pytest.approx(1)
        assert found["top_keys_share"] == pytest.approx(1 / 7)


def test_what_the_unary_term_goes_along_with() -> None:
    """Keys of one direction follow their length, keys of one length their cosine.

    Lengths and cosines are measured from the mean key.
    """
    theta = torch.tensor([[1.0, 0], [2, 0]])
    on_a_line = torch.cat([torch.linspace(1, 2, 8), torch.tensor([-4.0])])
    keys = torch.stack([on_a_line, torch.zeros(9)], 1)
    length, cosine = unary_ranks(Factors(theta, keys, torch.ones(()), False))
    # Eight keys above the mean, rising with their distance from it; the ninth below and farthest.
    assert length == pytest.approx(
        float(_spearman(on_a_line, (on_a_line - on_a_line.mean()).abs()))
    )
    assert length == pytest.approx(0.4)
    assert cosine == pytest.approx(float(_spearman(on_a_line, (on_a_line > 0).float())))
    angles = torch.arange(7) * (2 * torch.pi / 7) + 0.2
    circle = torch.stack([angles.cos(), angles.sin()], 1)
    length, cosine = unary_ranks(Factors(theta, circle + 4, torch.ones(()), False))
    assert length == 0
    assert cosine == pytest.approx(1)


def test_the_angles_of_queries() -> None:
    """0 for queries of one direction and any length, 1 for opposite ones; zeros do not count."""
    phi, one = torch.randn(4, 2), torch.ones(())
    assert query_angles(Factors(torch.tensor([[1.0, 1], [5, 5]]), phi, one, False)) < 1e-9
    opposite = torch.tensor([[1.0, 0], [-3, 0], [0, 0]])
    assert query_angles(Factors(opposite, phi, one, True)) == pytest.approx(1)
    right = torch.tensor([[1.0, 0], [0, 2]])
    assert query_angles(Factors(right, phi, one, False)) == pytest.approx(1 - 0.5**0.5)


@pytest.mark.parametrize("softmax", [False, True])
def test_maps_of_no_numbers_have_no_scores(softmax: bool) -> None:
    """A NaN or an infinity in one map makes its scores NaN, and leaves the other map's alone."""
    theta, phi = torch.randn(2, 5, 3), torch.randn(2, 6, 3)
    fine = score_maps(Factors(theta[1:], phi[1:], torch.ones(1), softmax))
    for bad in (torch.nan, torch.inf):
        broken = theta.clone()
        broken[0, 2, 1] = bad
        for name, score in score_maps(Factors(broken, phi, torch.ones(2), softmax)).items():
            assert score[0].isnan()
            assert_close(score[1:], fine[name], 1e-6, name)


def test_equal_values_share_a_rank() -> None:
    """Two equal values have the mean of the two ranks, in every list by itself."""
    values = torch.tensor([[3.0, 1, 3, 2], [0, 0, 0, 5]])
    assert ranks(values).tolist() == [[3.5, 1, 3.5, 2], [2, 2, 2, 4]]


def test_only_the_order_counts() -> None:
    """A rising function correlates fully, a falling one negatively, a constant not at all."""
    values = torch.rand(3, 20, dtype=torch.float64)
    assert rank_correlation(values, values.exp() ** 9).tolist() == pytest.approx([1] * 3)
    assert rank_correlation(values, -(values**3)).tolist() == pytest.approx([-1] * 3)
    assert rank_correlation(values, torch.ones_like(values)).tolist() == [0] * 3
    known = torch.tensor([1.0, 2, 3, 4]), torch.tensor([2.0, 1, 4, 3])
    assert float(rank_correlation(*known)) == pytest.approx(0.6)
