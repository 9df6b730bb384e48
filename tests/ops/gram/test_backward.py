"""The hand-written backward against the reference: first and second derivatives, transforms."""

from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from scalednl.ops import reference
from scalednl.ops.gram import gram_mix, gram_mix_normalised
from scalednl.ops.gram.mixing import Projections
from tests.support import LAYOUTS, assert_close, assert_close_all, laid_out

MEMORIES = ("auto", "lean")
HEADS, EPS = 2, 1e-3
Block = Callable[..., Tensor]


def _inputs(
    layout: str = "nchw",
    batch: int = 3,
    channels: int = 6,
    embed: int = 4,
    space: tuple[int, ...] = (4, 5),
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, ...]:
    """x, theta, phi, g, out, and two vectors."""
    x = laid_out(torch.randn(batch, channels, *space, dtype=dtype), layout)
    shapes = [(embed, channels)] * 3 + [(channels, embed), (channels,), (channels,)]
    return x, *(torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)


def _factor(x: Tensor, width: int) -> float:
    return (x[0, 0].numel() * width) ** -0.5


def _plain(
    x: Tensor,
    theta: Tensor,
    phi: Tensor,
    g: Tensor,
    out: Tensor,
    constant: Tensor,
    _unused: Tensor,
    *,
    memory: str,
    residual: bool = True,
    heads: int = HEADS,
) -> Tensor:
    return gram_mix(
        x,
        Projections(theta, phi, g, out, heads=heads, factor=_factor(x, len(theta) // heads)),
        constant,
        residual=residual,
        memory=memory,  # type: ignore[arg-type]
    )


def _normalised(
    x: Tensor,
    theta: Tensor,
    phi: Tensor,
    g: Tensor,
    out: Tensor,
    gamma: Tensor,
    beta: Tensor,
    *,
    memory: str,
    heads: int = HEADS,
) -> Tensor:
    return gram_mix_normalised(
        x,
        Projections(theta, phi, g, out, heads=heads, factor=_factor(x, len(theta) // heads)),
        gamma,
        beta,
        eps=EPS,
        memory=memory,  # type: ignore[arg-type]
    )[0]


def _branch(heads: int, x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, out: Tensor) -> Tensor:
    flat = x.flatten(2)
    return out @ reference.nonlocal_attention(theta @ flat, phi @ flat, g @ flat, heads=heads)


def _plain_truth(x: Tensor, *rest: Tensor, residual: bool = True, heads: int = HEADS) -> Tensor:
    u = (_branch(heads, x, *rest[:4]) + rest[4][:, None]).view_as(x)
    return x + u if residual else u


def _normalised_truth(x: Tensor, *rest: Tensor, heads: int = HEADS) -> Tensor:
    gamma, beta = rest[4:]
    return x + reference.batch_norm(_branch(heads, x, *rest[:4]), gamma, beta, EPS).view_as(x)


PAIRS: dict[str, tuple[Block, Block]] = {
    "residual": (_plain, _plain_truth),
    "branch": (partial(_plain, residual=False), partial(_plain_truth, residual=False)),
    "normalised": (_normalised, _normalised_truth),
}
FORMS: dict[str, tuple[Block, Block]] = {
    f"{name}-{memory}": (partial(form, memory=memory), truth)
    for memory in MEMORIES
    for name, (form, truth) in PAIRS.items()
}


def _used(form: str) -> slice:
    """Every input but the one that the form has no use for."""
    return slice(None) if form.startswith("normalised") else slice(0, 6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("space", [(4, 5), (1, 1), (1, 7), (23,), (2, 3, 4)])
def test_equals_the_reference(form: str, layout: str, space: tuple[int, ...]) -> None:
    """Values and all gradients agree with the literal equations to 1e-10, N < C and N > C."""
    fast, truth = FORMS[form]
    inputs = _inputs(layout, space=space)
    grad = torch.randn_like(inputs[0])
    results = []
    for function in (fast, truth):
        z = function(*inputs)
        results.append((z, *torch.autograd.grad(z, inputs[_used(form)], grad)))
    assert_close_all(results[0], results[1], 1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "sizes", list(product((1, 2), (1, 2), (1, 2), ((1, 1), (1, 2), (2, 1)))), ids=str
)
def test_sizes_of_one(form: str, layout: str, sizes: tuple[int, int, int, tuple[int, int]]) -> None:
    """One image, channel, embedding channel or pixel, in any combination, goes backward too."""
    batch, channels, embed, space = sizes
    fast, truth = FORMS[form]
    inputs = _inputs(layout, batch, channels, embed, space)
    grad = torch.randn_like(inputs[0])
    used = inputs[_used(form)]
    for heads in {1, embed}:
        results = []
        for function in (fast, truth):
            z = function(*inputs, heads=heads)
            results.append((z, *torch.autograd.grad(z, used, grad)))
        assert_close_all(results[0], results[1], 1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_first_and_second_derivatives(form: str, layout: str) -> None:
    """gradcheck and gradgradcheck pass: backward may be differentiated again."""
    function = FORMS[form][0]
    inputs = _inputs(layout, batch=2, channels=4, embed=2, space=(2, 3))
    used = inputs[_used(form)]
    rest = inputs[len(used) :]
    assert torch.autograd.gradcheck(lambda *a: function(*a, *rest), used)
    assert torch.autograd.gradgradcheck(lambda *a: function(*a, *rest), used)


@pytest.mark.parametrize("form", FORMS)
def test_gradient_penalty(form: str) -> None:
    """The gradient of loss + |d loss / dx|^2 equals the reference's."""
    inputs = _inputs()
    used = inputs[_used(form)]
    found = []
    for function in FORMS[form]:
        loss = function(*inputs).square().sum()
        (slope,) = torch.autograd.grad(loss, inputs[0], create_graph=True)
        found.append(torch.autograd.grad(loss + slope.square().sum(), used))
    assert_close_all(found[0], found[1], 1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_only_what_needs_a_gradient_gets_one(form: str) -> None:
    """Frozen weights or a constant x change nothing in the other gradients."""
    function = FORMS[form][0]
    inputs = _inputs()
    grad = torch.randn_like(inputs[0])
    all_of_them = torch.autograd.grad(function(*inputs), inputs[_used(form)], grad)
    frozen = (inputs[0], *(t.detach() for t in inputs[1:]))
    assert_close(torch.autograd.grad(function(*frozen), frozen[0], grad)[0], all_of_them[0], 1e-12)
    constant = (inputs[0].detach(), *inputs[1:])
    weights = constant[_used(form)][1:]
    found = torch.autograd.grad(function(*constant), weights, grad)
    assert_close_all(found, all_of_them[1:], 1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_any_layout(form: str, layout: str) -> None:
    """An expanded gradient, and one in the other layout, give what a dense one gives."""
    function = FORMS[form][0]
    inputs = _inputs(layout)
    used = inputs[_used(form)]
    other = LAYOUTS[1 - LAYOUTS.index(layout)]
    summed = torch.autograd.grad(function(*inputs).sum(), used)
    for grad in (torch.ones(()).double().expand_as(inputs[0]), torch.ones_like(inputs[0])):
        found = torch.autograd.grad(function(*inputs), used, laid_out(grad, other).detach())
        assert_close_all(found, summed, 1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_function_transforms(form: str) -> None:
    """vmap over inputs and over weights, per-sample gradients and forward mode all agree."""
    function = FORMS[form][0]
    inputs = tuple(t.detach() for t in _inputs(space=(2, 3)))
    x, *rest = inputs
    stacked = torch.stack([x, 2 * x])
    mapped = torch.vmap(lambda one: function(one, *rest))(stacked)
    assert_close(mapped[1], function(2 * x, *rest), 1e-10)

    ensemble = torch.stack([rest[0], -rest[0]])
    mapped = torch.vmap(lambda theta: function(x, theta, *rest[1:]))(ensemble)
    assert_close(mapped[1], function(x, -rest[0], *rest[1:]), 1e-10)

    def loss(one: Tensor, theta: Tensor) -> Tensor:
        return function(one[None], theta, *rest[1:]).square().sum()

    per_sample = torch.vmap(torch.func.grad(loss, argnums=1), in_dims=(0, None))(x, rest[0])
    theta = rest[0].clone().requires_grad_()
    (by_hand,) = torch.autograd.grad(loss(x[1], theta), theta)
    assert_close(per_sample[1], by_hand, 1e-10)

    tangent = torch.randn_like(x)
    forward = torch.func.jvp(lambda one: function(one, *rest), (x,), (tangent,))[1]
    with forward_ad.dual_level():
        dual = function(forward_ad.make_dual(x, tangent), *rest)
        assert_close(forward_ad.unpack_dual(dual).tangent, forward, 1e-10)
    step = 1e-6
    difference = function(x + step * tangent, *rest) - function(x - step * tangent, *rest)
    assert_close(forward, difference / (2 * step), 1e-6)


@pytest.mark.parametrize("ratio", [0, 30, 300])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_large_mean_costs_no_digits(ratio: int, layout: str) -> None:
    """At mean / deviation up to 300, folding loses no more in float32 than plain operations do."""
    inputs = _inputs(layout, batch=8, channels=32, embed=32, space=(16, 16), dtype=torch.float32)
    signs = torch.randn(32, 1, 1).sign()
    inputs = ((inputs[0].detach() + ratio * signs).requires_grad_(), *inputs[1:])
    grad = torch.randn_like(inputs[0])
    wide = tuple(t.detach().double().requires_grad_() for t in inputs)

    def branch_and_gradients(function: Block, values: tuple[Tensor, ...]) -> list[Tensor]:
        z = function(*values)
        return [z - values[0], *torch.autograd.grad(z, values, grad.to(z.dtype))]

    truth = branch_and_gradients(_normalised_truth, wide)
    folded = branch_and_gradients(partial(_normalised, memory="auto"), inputs)
    plain = branch_and_gradients(_normalised_truth, inputs)
    for exact, ours, theirs in zip(truth, folded, plain, strict=True):
        size = exact.norm()
        error, usual = (ours - exact).norm() / size, (theirs - exact).norm() / size
        assert error <= 10 * usual + 1e-6
    assert_close(folded[0], truth[0], 1e-3)


@pytest.mark.parametrize(
    ("batch", "channels", "side"), [(4, 128, 16), (2, 64, 32), (1, 128, 64), (1, 512, 28)]
)
@pytest.mark.parametrize("forms", [("branch-auto",), ("normalised-auto", "normalised-lean")])
def test_float32_at_the_papers_sizes(
    forms: tuple[str, ...], batch: int, channels: int, side: int
) -> None:
    """Values and gradients agree with the literal equations in float64 to 1e-4."""
    truth, used = FORMS[forms[0]][1], _used(forms[0])
    inputs = _inputs("channels_last", batch, channels, channels, (side, side), dtype=torch.float32)
    with torch.no_grad():
        for weight in inputs[1:5]:
            weight.mul_((2 / channels) ** 0.5)
    grad = torch.randn_like(inputs[0])
    wide = tuple(t.detach().double().requires_grad_() for t in inputs)
    exact = truth(*wide)
    expected = (exact, *torch.autograd.grad(exact, wide[used], grad.double()))
    for form in forms:
        z = FORMS[form][0](*inputs)
        found = (z, *torch.autograd.grad(z, inputs[used], grad))
        assert_close_all(found, expected, 1e-4)
