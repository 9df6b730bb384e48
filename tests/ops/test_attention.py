"""Every order over embeddings against the reference, in values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scalednl.attentions import ATTENTIONS
from scalednl.functional import attention_map, nonlocal_attention
from scalednl.ops import reference
from scalednl.ops.attention import FROM_INPUT
from scalednl.options import VIEWS, orders_of
from tests.support import LAYOUTS, assert_close, assert_close_all, laid_out

CASES = [
    (attention, view, order)
    for attention in ATTENTIONS
    for view in VIEWS
    for order, reason in orders_of(attention, view).items()
    if order not in FROM_INPUT and not reason
]


@pytest.mark.parametrize(("attention", "view", "order"), CASES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("keys", [(3, 5), (2, 2)])
def test_every_order_equals_the_reference(
    attention: str, view: str, order: str, layout: str, keys: tuple[int, int]
) -> None:
    """Values and gradients agree to 1e-10 in float64, in both layouts, with fewer keys too."""
    theta = laid_out(torch.randn(2, 6, 3, 5, dtype=torch.float64), layout)
    phi, g = (laid_out(torch.randn(2, 6, *keys, dtype=torch.float64), layout) for _ in range(2))
    grad = torch.randn_like(theta)
    options = {"heads": 3, "attention": attention, "view": view}
    y = nonlocal_attention(theta, phi, g, order=order, **options)  # type: ignore[arg-type]
    truth = reference.nonlocal_attention(
        theta.flatten(2),
        phi.flatten(2),
        g.flatten(2),
        **options,  # type: ignore[arg-type]
    ).view_as(theta)
    inputs = (theta, phi, g)
    assert_close_all(
        (y, *torch.autograd.grad(y, inputs, grad)),
        (truth, *torch.autograd.grad(truth, inputs, grad)),
        1e-10,
    )


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("view", VIEWS)
def test_map_times_g_is_y(attention: str, view: str) -> None:
    """The map has every factor in it: y = A g head by head, and it is the reference's map."""
    theta, phi, g = torch.randn(3, 2, 6, 3, 4, dtype=torch.float64)
    options = {"heads": 2, "attention": attention, "view": view}
    a = attention_map(theta, phi, **options)  # type: ignore[arg-type]
    y = torch.einsum("bhij,bhdj->bhdi", a, g.flatten(2).unflatten(1, (2, 3)))
    truth = nonlocal_attention(theta, phi, g, **options)  # type: ignore[arg-type]
    assert_close(y.reshape_as(theta), truth, 1e-10)
    by_reference = reference.attention_map(theta.flatten(2), phi.flatten(2), **options)  # type: ignore[arg-type]
    assert_close(a, by_reference, 1e-12)


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 4),
    width=st.integers(1, 5),
    height=st.integers(1, 7),
    breadth=st.integers(1, 7),
    seed=st.integers(0, 2**16),
)
def test_odd_sizes(
    batch: int, heads: int, width: int, height: int, breadth: int, seed: int
) -> None:
    """Associative, quadratic and reference agree at any size, single pixels and channels too."""
    generator = torch.Generator().manual_seed(seed)
    shape = (3, batch, heads * width, height, breadth)
    theta, phi, g = torch.randn(shape, generator=generator, dtype=torch.float64)
    truth = reference.nonlocal_attention(
        theta.flatten(2), phi.flatten(2), g.flatten(2), heads=heads
    ).view_as(theta)
    for order in ("associative", "quadratic"):
        y = nonlocal_attention(theta, phi, g, heads=heads, order=order)
        assert_close(y, truth, 1e-10)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("view", VIEWS)
def test_fused_softmax_never_stores_the_map(layout: str, view: str) -> None:
    """No tensor of heads x N x N numbers is kept, whatever the layout and view."""
    pixels, heads = 256, 2
    theta, phi, g = (laid_out(torch.randn(1, 8, 16, 16), layout) for _ in range(3))
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: sizes.append(t.numel()) or t,  # type: ignore[func-returns-value]
        lambda t: t,
    ):
        y = nonlocal_attention(theta, phi, g, heads=heads, attention="softmax", view=view)  # type: ignore[arg-type]
    assert y.requires_grad
    assert sizes
    assert max(sizes) < heads * pixels * pixels


def test_learned_temperature_is_one_number_a_head() -> None:
    """A tensor of temperatures acts head by head, in both softmax orders, and gets a gradient."""
    theta, phi, g = torch.randn(3, 2, 6, 4, 4, dtype=torch.float64)
    temperature = torch.tensor([0.3, 2.0], dtype=torch.float64, requires_grad=True)
    truth = reference.nonlocal_attention(
        theta.flatten(2),
        phi.flatten(2),
        g.flatten(2),
        heads=2,
        attention="softmax",
        softmax_scale=temperature,
    ).view_as(theta)
    (d_truth,) = torch.autograd.grad(truth.square().sum(), temperature)
    for order in ("fused", "quadratic"):
        y = nonlocal_attention(
            theta,
            phi,
            g,
            heads=2,
            attention="softmax",
            order=order,
            softmax_scale=temperature,
        )
        assert_close(y, truth, 1e-10)
        assert_close(torch.autograd.grad(y.square().sum(), temperature)[0], d_truth, 1e-8)


@pytest.mark.parametrize("order", ["associative", "quadratic"])
def test_direction_of_a_zero_vector_is_zero(order: str) -> None:
    """A zero theta or phi gives 0 and finite gradients, never NaN or a gradient of 1e12."""
    theta, phi, g = torch.randn(3, 1, 4, 2, 3, dtype=torch.float64)
    theta[:, :, 0, 0] = 0
    phi[:, :, 1, 1] = 0
    theta.requires_grad_()
    phi.requires_grad_()
    y = nonlocal_attention(theta, phi, g, heads=2, view="direction", order=order)  # type: ignore[arg-type]
    assert torch.equal(y[:, :, 0, 0], torch.zeros(1, 4, dtype=torch.float64))
    for gradient in torch.autograd.grad(y.square().sum(), (theta, phi)):
        assert torch.isfinite(gradient).all()
        assert gradient.abs().max() < 1e3


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"heads": 4}, "heads=4 does not divide embed_channels=6: use one of 1, 2, 3 or 6"),
        ({"attention": "scale"}, "attention='scale' is unknown.*did you mean 'scaled'"),
        ({"view": "angle"}, "view='angle' is unknown: use 'base', 'magnitude' or 'direction'"),
        ({"order": "gram"}, "order='gram' cannot be used.*NonLocal2d"),
        (
            {"order": "rank_one", "view": "magnitude"},
            "order='rank_one' cannot be used: it starts from a block's input.*NonLocal2d",
        ),
        ({"order": "fused"}, "order='fused' cannot be used: for attention='softmax' only"),
        ({"attention": "softmax", "order": "associative"}, "complete row"),
        ({"attention": "softmax", "scale": False}, "scale=False drops"),
        ({"phi": torch.randn(2, 6, 3, 4)}, r"phi \(2, 6, 3, 4\)"),
        ({"theta": torch.randn(2, 6)}, r"\(batch, channels, \*space\)"),
        ({"theta": torch.ones(2, 6, 3, 5, dtype=torch.int64)}, "floating point"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], sentence: str) -> None:
    """Every mistake gets a ValueError that repeats it and says what would work."""
    theta, phi, g = torch.randn(3, 2, 6, 3, 5)
    call: dict[str, object] = {"theta": theta, "phi": phi, "g": g, **change}
    with pytest.raises(ValueError, match=sentence):
        nonlocal_attention(**call)  # type: ignore[arg-type]
