"""Attentions of a user's own: blocks against their functions, and the trial before first use."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import scalednl
from scalednl.attentions import ATTENTIONS, register_attention
from scalednl.functional import attention_map, nonlocal_attention, nonlocal_block
from scalednl.inspection import capture, factors
from scalednl.inspection.ablations import MAP_ABLATIONS, VIEW_ABLATIONS, ablate
from scalednl.inspection.scores import score_maps
from scalednl.ops import reference
from scalednl.ops.own_attention import own_map
from scalednl.options import VIEWS, orders_of
from tests.own_attentions import registered
from tests.support import LAYOUTS, assert_close, assert_close_all, laid_out

CASES = [
    ("sigmoid", "auto"),
    ("sigmoid", "quadratic"),
    *(("kernel", order) for order in ("auto", "quadratic", "associative")),
]


@pytest.fixture(autouse=True)
def _own() -> Iterator[None]:
    with registered():
        yield


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("attention", "order"), CASES)
def test_every_order_equals_the_reference(
    attention: str, order: str, view: str, layout: str
) -> None:
    """Values and gradients agree to 1e-10 in float64, at odd sizes, with fewer keys and a mask."""
    theta = laid_out(torch.randn(2, 6, 3, 5, dtype=torch.float64), layout)
    phi, g = (laid_out(torch.randn(2, 6, 2, 4, dtype=torch.float64), layout) for _ in range(2))
    mask = torch.rand(2, 2, 4) > 0.4
    for given in (None, mask):
        options: dict[str, Any] = {"heads": 3, "attention": attention, "view": view}
        y = nonlocal_attention(theta, phi, g, order=order, key_mask=given, **options)  # type: ignore[arg-type]
        flat = None if given is None else given.flatten(1)
        truth = reference.nonlocal_attention(
            *(v.flatten(2) for v in (theta, phi, g)), key_mask=flat, **options
        ).view_as(theta)
        grad = torch.randn_like(theta)
        inputs = (theta, phi, g)
        assert_close_all(
            (y, *torch.autograd.grad(y, inputs, grad)),
            (truth, *torch.autograd.grad(truth, inputs, grad)),
            1e-10,
        )
        a = attention_map(theta, phi, key_mask=given, **options)
        assert_close(
            a,
            reference.attention_map(theta.flatten(2), phi.flatten(2), key_mask=flat, **options),
            1e-10,
        )


def test_the_function_sees_what_the_view_shows() -> None:
    """Lengths are the first of d channels, directions have length 1, and d stays what it is."""
    seen = []

    @register_attention
    def spy(theta: Tensor, phi: Tensor) -> Tensor:
        seen.append((theta, phi))
        return theta @ phi.mT

    theta, phi = torch.randn(2, 1, 6, 2, 2, dtype=torch.float64)
    for view in VIEWS:
        attention_map(theta, phi, heads=2, attention="spy", view=view)  # type: ignore[arg-type]
        for given, wanted in zip(seen[-1], (theta, phi), strict=True):
            vectors = wanted.flatten(2).unflatten(1, (2, 3)).mT
            lengths = vectors.norm(dim=-1)
            assert given.shape == (1, 2, 4, 3)
            if view == "magnitude":
                assert_close(given[..., 0], lengths, 1e-12)
                assert not given[..., 1:].any()
            else:
                assert_close(
                    given, vectors / (lengths[..., None] if view == "direction" else 1), 1e-12
                )


@pytest.mark.parametrize(("attention", "order"), CASES)
def test_a_block_is_its_parts_around_the_function(attention: str, order: str) -> None:
    """z = x + BN(out(y)) of the literal block, in training, masks and other keys included."""
    block = scalednl.NonLocal2d(
        4,
        attention=attention,
        heads=2,
        order=order,  # type: ignore[arg-type]
        norm_init=1.0,
        dtype=torch.float64,
    )
    theta, phi, g, out = (
        conv.weight.flatten(1) for conv in (block.theta, block.phi, block.g, block.out)
    )
    x = torch.randn(2, 4, 3, 5, dtype=torch.float64)
    assert isinstance(block.norm, torch.nn.BatchNorm2d)
    truth = reference.nonlocal_block(
        *(x.flatten(2), theta, phi, g, out, block.norm.weight, block.norm.bias),
        heads=2,
        attention=attention,
    )
    assert_close(block(x).flatten(2), truth, 1e-10)
    by_function = nonlocal_block(
        *(x, theta, phi, g, out),
        norm=torch.nn.BatchNorm2d(4, dtype=torch.float64),
        heads=2,
        attention=attention,
    )
    assert_close(by_function, truth.view_as(x), 1e-10)
    block.eval()
    mask = torch.zeros(2, 3, 5, dtype=torch.bool)
    mask[:, :2, :3] = True
    cut = block(x[:, :, :2, :3])
    assert_close(block(x, mask=mask)[:, :, :2, :3], cut, 1e-10)
    other = torch.randn(2, 4, 2, 2, dtype=torch.float64)
    a = block.attention_map(x, keys=other)
    assert a.shape == (2, 2, 15, 4)


@pytest.mark.parametrize("attention", ["sigmoid", "kernel"])
def test_capture_scores_and_ablations_follow(attention: str) -> None:
    """Captured maps are the block's; scores are those of the map; each ablation is what it says."""
    block = scalednl.NonLocal2d(4, attention=attention, heads=2, norm_init=1.0).double().eval()
    x = torch.randn(2, 4, 3, 4, dtype=torch.float64)
    with scalednl.capture_attention(block) as captured:
        block(x)
    seen, a = captured[0], block.attention_map(x).detach()
    for head in range(2):
        assert_close(seen.map(1, head), a[1, head], 1e-12)
        assert_close(seen.rows(1, head, [(2, 1)])[0], a[1, head, 9], 1e-12)
        assert_close(seen.column_mean(1, head), a[1, head].mean(0), 1e-12)
    scores = score_maps(seen.factors)
    keys, queries = a.mean(2, keepdim=True), a.mean(3, keepdim=True)
    pair = a - keys - queries + a.mean((2, 3), keepdim=True)
    key = keys.var(3, correction=0).squeeze(2)
    assert_close(scores["vertical_share"], key / (key + pair.square().mean((2, 3))), 1e-9)
    sizes = torch.linalg.svdvals(a).square()
    assert_close(scores["rank_one_energy"], sizes[..., 0] / sizes.sum(-1), 1e-9)
    assert not {"key_share", "length_rank", "query_angles", "effective_keys"} & scores.keys()
    g = seen.g
    replaced = {
        "unchanged": a,
        "column_mean": keys.expand_as(a),
        "uniform": a.mean((2, 3), keepdim=True).expand_as(a),
        "pair": a.mean((2, 3), keepdim=True) + pair,
    }
    for name in (*MAP_ABLATIONS, *VIEW_ABLATIONS):
        z = ablate(block, x, name)
        if name in replaced:
            y = seen.maps(replaced[name] @ g)
            assert block.norm is not None
            assert_close(z, x + block.norm(block.out(y)), 1e-9, name)
        assert z.isfinite().all()


def test_no_image_at_all_with_a_mask() -> None:
    """An empty batch gives an empty batch, with a mask as without one."""

    @register_attention
    def product(theta: Tensor, phi: Tensor) -> Tensor:
        return theta @ phi.mT

    block = scalednl.NonLocal2d(8, attention="product").eval()
    x = torch.randn(0, 8, 4, 4, requires_grad=True)
    z = block(x, mask=torch.ones(0, 4, 4, dtype=torch.bool))
    assert torch.equal(z, block(x))
    z.sum().backward()
    assert x.grad is not None


def test_a_large_map_is_refused_before_it_is_formed() -> None:
    """A captured map of more entries than fit is a sentence, not an allocation."""
    block = scalednl.NonLocal2d(2, attention="sigmoid", heads=1)
    x = torch.zeros(1, 2, 1, 1).expand(1, 2, 100, 100)
    with scalednl.capture_attention(block) as captured:
        captured.add(capture.observe(block, x, ""))
    assert captured[0].is_large
    with pytest.raises(ValueError, match="10,000 queries x 10,000 keys"):
        captured[0].rows(0, 0, [0])


def test_apply_moments_is_refused() -> None:
    """Moments give products of theta and phi alone; anything else must say so."""
    block = scalednl.NonLocal2d(4, attention="sigmoid")
    moments = scalednl.Moments()
    moments.update(torch.randn(1, 4, 3, 3))
    with pytest.raises(ValueError, match="apply_moments cannot be used: A is not a product"):
        block.apply_moments(torch.randn(1, 4, 3, 3), moments)


@pytest.mark.parametrize(
    "options",
    [{"center": "keys"}, {"scale": False}, {"reference_pixels": 9}, {"softmax_scale": 1.0}],
)
def test_options_of_other_attentions_are_refused(options: dict[str, Any]) -> None:
    """No option is silently ignored."""
    with pytest.raises(ValueError, match="sigmoid"):
        scalednl.NonLocal2d(4, attention="sigmoid", **options)


def _wrong_shape(theta: Tensor, phi: Tensor) -> Tensor:
    return phi @ theta.mT


def _not_finite(theta: Tensor, phi: Tensor) -> Tensor:
    return (theta @ phi.mT).log()


def _fails(theta: Tensor, phi: Tensor) -> Tensor:
    return theta @ phi


def _no_tensor(theta: Tensor, phi: Tensor) -> Any:
    return (theta @ phi.mT).tolist()


def _mixes(theta: Tensor, phi: Tensor) -> Tensor:
    return theta @ phi.mT / theta.norm()


def _half(theta: Tensor, phi: Tensor) -> Tensor:
    return (theta @ phi.mT).float()


def _infinite_slope(theta: Tensor, phi: Tensor) -> Tensor:
    return (theta @ phi.mT * 0).abs().sqrt()


LEARNED = torch.nn.Parameter(torch.ones((), dtype=torch.float64))


def _learned(theta: Tensor, phi: Tensor) -> Tensor:
    return (LEARNED * theta @ phi.mT).softmax(-1)


def _random(theta: Tensor, phi: Tensor) -> Tensor:
    return torch.dropout((theta @ phi.mT).softmax(-1), 0.5, True)


def _detached(theta: Tensor, phi: Tensor) -> Tensor:
    return (theta @ phi.mT).detach().softmax(-1)


def _nonlinear(theta: Tensor, phi: Tensor, g: Tensor) -> Tensor:
    return (theta @ phi.mT) @ g.square()


def _fixed_width(theta: Tensor, phi: Tensor, g: Tensor) -> Tensor:
    return theta @ (phi.mT @ g) + theta


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (_wrong_shape, r"must return the map .* = \(2, 2, 5, 7\) .* returned \(2, 2, 7, 5\)"),
        (_not_finite, "numbers that are not finite"),
        (_fails, r"failed on embeddings of shapes \(2, 2, 5, 3\), .*RuntimeError"),
        (_no_tensor, "returned a list"),
        (_mixes, "mixes the images of a batch"),
        (_half, "in torch.float64, but returned .* in torch.float32"),
        (_infinite_slope, "gradients that are not finite"),
        (_learned, "depends on a learned tensor of its own"),
        (_random, "is random: two calls"),
        (_detached, "depends on theta, but gives it no gradient"),
        (_nonlinear, "is not linear in g"),
        (_fixed_width, "failed on embeddings of shapes"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_a_function_that_cannot_be_used_is_one_sentence(
    function: Callable[..., Any], sentence: str
) -> None:
    """The trial names the attention and what its function did."""
    name = function.__name__.strip("_")
    register_attention(name=name)(function)
    with pytest.raises(ValueError, match=sentence) as caught:
        scalednl.NonLocal2d(4, attention=name)
    assert f"attention {name!r}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_order_that_differs_is_refused() -> None:
    """A faster order is compared in values and in gradients before it is used."""

    def detached(theta: Tensor, phi: Tensor, g: Tensor) -> Tensor:
        return ATTENTIONS["sigmoid"](theta, phi.detach()) @ g

    def wrong(theta: Tensor, phi: Tensor, g: Tensor) -> Tensor:
        return ATTENTIONS["sigmoid"](theta, phi) @ g * 1.001

    for function in (detached, wrong):
        ATTENTIONS["sigmoid"].order("fused")(function)
        assert not orders_of("sigmoid", "base")["fused"]
        with pytest.raises(ValueError, match="order 'fused' of attention 'sigmoid' differs"):
            scalednl.NonLocal2d(4, attention="sigmoid")


def test_an_order_registered_later_is_used() -> None:
    """A block that exists takes the faster order from then on."""
    block = scalednl.NonLocal2d(4, attention="sigmoid")
    assert block.choice((1, 4, 3, 3)).order == "quadratic"
    ATTENTIONS["sigmoid"].order("fused")(lambda t, p, g: ATTENTIONS["sigmoid"](t, p) @ g)
    assert block.choice((1, 4, 3, 3)).order == "fused"
    assert block(torch.randn(1, 4, 3, 3)).shape == (1, 4, 3, 3)
    assert "fused" in str(block.plan((1, 4, 3, 3)))


def test_the_trial_leaves_the_random_stream_alone() -> None:
    """A seeded block has the same weights whether its attention was tried before or not."""
    torch.manual_seed(3)
    first = scalednl.NonLocal2d(4, attention="sigmoid").theta.weight
    torch.manual_seed(3)
    assert torch.equal(scalednl.NonLocal2d(4, attention="sigmoid").theta.weight, first)
    with torch.device("meta"):
        assert scalednl.NonLocal2d(4, attention="kernel").theta.weight.is_meta


def test_the_trial_looks_at_gradients_in_inference_mode_too() -> None:
    """An order without gradients is refused wherever the block is made."""
    ATTENTIONS["sigmoid"].order("fused")(lambda t, p, g: (ATTENTIONS["sigmoid"](t, p) @ g).detach())
    with torch.inference_mode(), pytest.raises(ValueError, match="differs from its reference"):
        scalednl.NonLocal2d(4, attention="sigmoid")


def test_maps_of_many_images_are_formed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores and ablations are those of all images at once; a row forms one image's map."""
    block = scalednl.NonLocal2d(4, attention="sigmoid", heads=2, norm_init=1.0).double().eval()
    x = torch.randn(5, 4, 3, 4, dtype=torch.float64)
    with scalednl.capture_attention(block) as captured:
        block(x)
    seen = captured[0]
    scores, ablated = score_maps(seen.factors), ablate(block, x, "pair")
    monkeypatch.setattr(factors, "LARGEST_MAP", 2 * 2 * 12 * 12)
    parts = list(seen.parts())
    assert [len(part.theta) for part in parts] == [2, 2, 1]
    for name, found in scores.items():
        assert_close(torch.cat([score_maps(part.factors)[name] for part in parts]), found, 1e-12)
    assert_close(ablate(block, x, "pair"), ablated, 1e-12)
    formed = []

    def counted(theta: Tensor, *rest: Any) -> Tensor:
        formed.append(len(theta))
        return own_map(theta, *rest)

    monkeypatch.setattr(capture, "own_map", counted)
    seen.rows(3, 1, [0])
    assert formed == [1]


def test_an_attention_may_leave_embeddings_out() -> None:
    """A mean over all keys uses neither theta nor phi, and is a control that people want."""

    @register_attention
    def everywhere(theta: Tensor, phi: Tensor) -> Tensor:
        return theta.new_full((*theta.shape[:3], phi.shape[2]), 1 / phi.shape[2])

    block = scalednl.NonLocal2d(4, attention="everywhere", heads=1, norm=False)
    x = torch.randn(1, 4, 2, 3)
    mean = block.out(block.g(x).mean((2, 3), keepdim=True))
    assert_close(block(x), x + mean, 1e-5)
