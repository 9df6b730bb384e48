"""Every variant of the block against the reference, in training and evaluation."""

import sys
from pathlib import Path
from types import FrameType

import pytest
import torch
from torch import nn

import scalednl
from scalednl.attentions import ATTENTIONS
from scalednl.ops import reference
from scalednl.ops.planner import Choice
from scalednl.options import CENTERS, VIEWS, orders_of
from tests.support import (
    LAYOUTS,
    assert_close,
    assert_close_all,
    force,
    laid_out,
    randomise,
    reference_block,
    with_gradients,
)

Options = dict[str, object]
SPACES = {1: (11,), 2: (4, 6), 3: (2, 4, 3)}
BLOCKS = {1: scalednl.NonLocal1d, 2: scalednl.NonLocal2d, 3: scalednl.NonLocal3d}

ORDERED: list[Options] = [
    {"attention": attention, "view": view, "order": order, "key_pool": pool, "bias": bias}
    for attention in ATTENTIONS
    for view in VIEWS
    for pool in (None, "before", "after")
    for order, reason in orders_of(attention, view, key_pool=pool).items()
    if not reason
    for bias in (False, True)
]
CENTRED: list[Options] = [
    {"attention": attention, "view": view, "order": order, "center": center, "bias": bias}
    for attention, bias in (
        ("scaled", False),
        ("scaled", True),
        ("scaled", ("g",)),
        ("mean", False),
    )
    for view in VIEWS
    for order, reason in orders_of(attention, view).items()
    if not reason
    for center in CENTERS
]
VARIANTS: list[Options] = [
    *ORDERED,
    {"memory": "lean", "order": "gram"},
    {"memory": "lean"},
    {"norm": False, "order": "gram"},
    {"norm": False, "order": "associative"},
    {"embed_channels": 2, "heads": 2, "order": "gram"},
    {"embed_channels": 4, "heads": 4},
    {"scale": False, "order": "gram"},
    {"scale": False, "order": "associative"},
    *CENTRED,
    {"center": "keys", "memory": "lean", "order": "gram"},
    {"center": "keys", "norm": False, "order": "gram"},
    {"center": "keys+mean", "key_pool": "before", "order": "gram"},
    {"reference_pixels": 7, "order": "gram"},
    {"reference_pixels": 7, "order": "associative"},
    {"reference_pixels": 7, "order": "quadratic"},
    {"reference_pixels": "running", "order": "gram"},
    {"reference_pixels": "running", "order": "associative"},
    {"reference_pixels": "running", "order": "rank_one", "view": "magnitude"},
    {"key_pool": "before", "key_pool_size": 3, "order": "gram", "bias": True},
    {"key_pool": "before", "key_pool_size": (1, 4), "order": "gram", "memory": "lean"},
    {"key_pool": "before", "key_pool_size": (2, 3), "order": "rank_one", "view": "magnitude"},
    {"key_pool": "after", "key_pool_size": 3, "order": "associative"},
    {"key_pool": "after", "key_pool_size": 4, "order": "quadratic", "view": "direction"},
    {"key_pool": "after", "key_pool_size": (3, 1), "order": "fused", "attention": "softmax"},
    {"key_pool": "before", "key_pool_size": 3, "reference_pixels": "running"},
    {"key_pool": "before", "key_pool_size": 1, "order": "gram"},
    {"attention": "softmax", "softmax_scale": "channels"},
    {"attention": "softmax", "softmax_scale": "learned"},
    {"attention": "softmax", "softmax_scale": 3.0, "view": "direction"},
]


def _name(options: Options) -> str:
    return "-".join(f"{k}={v}" for k, v in options.items() if v not in (None, False))


def _block(options: Options, dims: int = 2, channels: int = 6) -> scalednl.NonLocal2d:
    options = {"heads": 2, **options}
    return randomise(BLOCKS[dims](channels, **options).double())  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("options", VARIANTS, ids=_name)
def test_every_variant_equals_the_reference(options: Options, training: bool, layout: str) -> None:
    """Output and the gradients of x and every weight agree with the equations to 1e-10."""
    block = _block(options).train(training)
    x = laid_out(torch.randn(3, 6, 4, 6, dtype=torch.float64), layout)
    grad = torch.randn_like(x)
    truth = with_gradients(None, block, x, grad)
    assert_close_all(with_gradients(block, block, x, grad), truth, 1e-10)


@pytest.mark.parametrize("dims", BLOCKS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("order", ["quadratic", "associative", "gram"])
@pytest.mark.parametrize("pool", [None, "before"])
def test_one_to_three_dimensions(dims: int, training: bool, order: str, pool: str | None) -> None:
    """The blocks over sequences, images and videos are the same equations."""
    block = _block({"order": order, "key_pool": pool}, dims).train(training)
    for layout in LAYOUTS:
        x = laid_out(torch.randn(2, 6, *SPACES[dims], dtype=torch.float64), layout)
        grad = torch.randn_like(x)
        truth = with_gradients(None, block, x, grad)
        assert_close_all(with_gradients(block, block, x, grad), truth, 1e-10)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("order", ["quadratic", "associative", "gram"])
@pytest.mark.parametrize(("dims", "size"), [(1, 4), (1, (3,)), (3, 3), (3, (2, 2, 2))])
def test_pools_of_sequences_and_videos(
    dims: int, size: int | tuple[int, ...], order: str, training: bool
) -> None:
    """A number pools space and leaves time; a tuple pools every axis by its own number."""
    pooled: Options = {"order": order, "key_pool": "before", "key_pool_size": size}
    block = _block(pooled, dims).train(training)
    x = torch.randn(2, 6, *SPACES[dims], dtype=torch.float64, requires_grad=True)
    grad = torch.randn_like(x)
    truth = with_gradients(None, block, x, grad)
    assert_close_all(with_gradients(block, block, x, grad), truth, 1e-10)


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("shape", [(1, 8, 5, 5), (3, 8, 1, 4), (2, 8, 1, 2), (4, 8, 1, 1)])
def test_few_pixels(fold: bool, shape: tuple[int, ...]) -> None:
    """A batch of one, a row of one, and single pixels are no special case."""
    block = force(_block({"order": "gram"}, channels=8), Choice("gram", fold))
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    grad = torch.randn_like(x)
    truth = with_gradients(None, block, x, grad)
    assert_close_all(with_gradients(block, block, x, grad), truth, 1e-9)


@pytest.mark.parametrize("options", [v for v in VARIANTS if not v.get("bias")], ids=_name)
def test_the_map_explains_the_output(options: Options) -> None:
    """y = A g with A = attention_map(x): out and norm applied to it give the block's output."""
    block = _block(options).eval()
    x = torch.randn(2, 6, 4, 6, dtype=torch.float64)
    a = block.attention_map(x)
    _, _, g = block.embed(x)
    assert a.shape == (2, block.heads, 24, g[0, 0].numel())
    y = torch.einsum("bhij,bhdj->bhdi", a, g.flatten(2).unflatten(1, (block.heads, -1)))
    u = block.out(y.reshape(2, -1, 4, 6))
    z = x + (u if block.norm is None else block.norm(u))
    assert_close(z, block(x), 1e-10)


def test_softmax_maps_sum_to_one_over_keys() -> None:
    """Rows of a softmax map are queries."""
    a = _block({"attention": "softmax"}).attention_map(torch.randn(2, 6, 4, 6).double())
    assert_close(a.sum(-1), torch.ones_like(a[..., 0]), 1e-12)


def test_a_state_dict_moves_between_all_variants() -> None:
    """Names and shapes of weights are the same whatever the attention, view, order or memory."""
    source = _block({})
    x = torch.randn(2, 6, 4, 6, dtype=torch.float64)
    for options in VARIANTS:
        if options.get("bias") or options.get("embed_channels") or options.get("norm") is False:
            continue
        block = _block(options)
        block.load_state_dict(source.state_dict())
        assert torch.equal(block.theta.weight, source.theta.weight)
        assert_close(block.eval()(x), reference_block(block, x), 1e-10)
        if options.get("reference_pixels") == "running":
            with pytest.warns(UserWarning, match="running_pixels is dropped"):
                source.load_state_dict(block.state_dict())
            continue
        source.load_state_dict(block.state_dict())


@pytest.mark.usefixtures("unchecked_shapes")
def test_orders_may_be_set_later() -> None:
    """order and memory may be assigned, and a wrong name is refused and changes nothing."""
    block = _block({})
    x = torch.randn(2, 6, 4, 6, dtype=torch.float64)
    truth = block(x)
    for order in ("quadratic", "associative", "gram"):
        block.order = order
        assert block.plan(x.shape).order == order
        assert_close(block(x), truth, 1e-10)
    block.memory = "lean"
    with pytest.raises(ValueError, match="order='fused' cannot be used"):
        block.order = "fused"
    with pytest.raises(ValueError, match="memory='tiny' is unknown"):
        block.memory = "tiny"  # type: ignore[assignment]
    assert (block.order, block.memory) == ("gram", "lean")


def test_rank_one_is_what_the_magnitude_view_runs() -> None:
    """auto takes it and the plan prints it; a hook on g rules it out, and then g is called."""
    block = _block({"view": "magnitude"})
    x = torch.randn(2, 6, 8, 8, dtype=torch.float64)
    z = block(x)
    assert block.choice(x.shape) == Choice("rank_one") == block.plan(x.shape).choice
    assert "> rank_one " in str(block.plan(x.shape))
    block.order = "rank_one"
    assert_close(block(x), z, 1e-10)
    called = []
    block.g.register_forward_hook(lambda *_: called.append(True))
    assert_close(block(x), z, 1e-10)
    assert called
    assert block.choice(x.shape).order == "associative"
    assert "order='rank_one' being unavailable" in str(block.plan(x.shape))


@pytest.mark.parametrize("training", [True, False])
def test_the_associative_order_of_the_magnitude_view_is_associative(training: bool) -> None:
    """Asked for, it embeds g at every pixel: more multiply-adds than rank_one, the same result."""
    x = torch.randn(2, 6, 8, 8, dtype=torch.float64)
    asked, auto = (
        _block({"view": "magnitude", "order": order}).train(training)
        for order in ("associative", "auto")
    )
    auto.load_state_dict(asked.state_dict())
    assert asked.plan(x.shape).choice == Choice("associative")
    assert asked.plan(x.shape).multiply_adds > auto.plan(x.shape).multiply_adds
    assert_close(asked(x), auto(x), 1e-10)


def test_a_choice_may_be_set_as_the_order() -> None:
    """A Choice fixes folding too; where it cannot fold, the order is taken without."""
    block = _block({"order": Choice("gram", True)})
    shape = (2, 6, 2, 2)
    assert block.choice(shape) == block.plan(shape).choice == Choice("gram", True)
    assert "order='gram + norm' was asked for" in str(block.plan(shape))
    assert block.eval().choice(shape) == Choice("gram", False)
    block.train().order = Choice("gram", False)
    assert block.choice((2, 6, 64, 64)) == Choice("gram", False)
    assert "order='gram'" in repr(block)


def test_scaled_heads_share_no_information() -> None:
    """Head h's output depends only on head h's rows of theta, phi and g."""
    theta, phi, g = torch.randn(3, 1, 6, 9, dtype=torch.float64)
    whole = reference.nonlocal_attention(theta, phi, g, heads=3)
    for h in range(3):
        rows = slice(2 * h, 2 * h + 2)
        alone = reference.nonlocal_attention(theta[:, rows], phi[:, rows], g[:, rows])
        assert_close(whole[:, rows], alone, 1e-12)


def test_gamma_zero_is_the_identity() -> None:
    """A new block passes x through exactly, in training and evaluation, in every order."""
    x = torch.randn(2, 8, 4, 4)
    for order in ("quadratic", "associative", "gram"):
        block = scalednl.NonLocal2d(8, order=order)
        assert torch.equal(block(x), x)
        assert torch.equal(block.eval()(x), x)


def test_the_repr_shows_what_differs() -> None:
    """Options that were changed are shown, others not."""
    text = repr(scalednl.NonLocal2d(8, attention="softmax", view="direction", softmax_scale=3.0))
    assert "8, attention='softmax', heads=4, order='auto', view='direction'" in text
    assert "softmax_scale=3.0" in text
    assert "key_pool" not in text
    text = repr(scalednl.NonLocal2d(8, key_pool="before", key_pool_size=(1, 3)))
    assert "key_pool='before', key_pool_size=(1, 3)" in text


class _Doubled(nn.Conv2d):
    """A convolution that is more than its weights, as adapters are."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Twice the convolution."""
        return 2 * super().forward(x)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["theta", "phi", "g", "out"])
def test_replaced_modules_are_called(name: str, training: bool) -> None:
    """Where a convolution was replaced, the block calls it and says why gram is out."""
    block = _block({"order": "gram"}).train(training)
    x = torch.randn(2, 6, 4, 6, dtype=torch.float64)
    twice = _block({"order": "gram"}).train(training)
    twice.load_state_dict(block.state_dict())
    with torch.no_grad():
        getattr(twice, name).weight.mul_(2)
    old = getattr(block, name)
    new = _Doubled(old.in_channels, old.out_channels, 1, bias=False).double()
    new.load_state_dict(old.state_dict())
    setattr(block, name, new)
    assert_close(block(x), twice(x), 1e-10)
    assert "was replaced, patched or hooked" in str(block.plan(x.shape))


def test_hooks_on_convolutions_fire() -> None:
    """A forward hook on theta sees theta, also where gram would not have formed it."""
    block = _block({})
    x = torch.randn(2, 6, 4, 6, dtype=torch.float64)
    before = block(x)
    seen = []
    handle = block.theta.register_forward_hook(lambda _m, _i, output: seen.append(output))
    assert_close(block(x), before, 1e-10)
    handle.remove()
    block(x)
    assert len(seen) == 1
    assert_close(seen[0], block.theta(x), 1e-12)


@pytest.mark.parametrize("training", [True, False])
def test_a_reader_of_forward_opens_ten_files(training: bool) -> None:
    """The functions that one pass of the default block calls are in at most ten files."""
    block = scalednl.NonLocal2d(16, norm_init=1.0).train(training)
    x = torch.randn(2, 16, 32, 32)
    block(x)
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        block(x)
    finally:
        sys.setprofile(None)
    package = Path(scalednl.__file__).parent
    opened = {path for name in files if (path := Path(name)).is_relative_to(package)}
    assert package / "blocks" / "nonlocal_block.py" in opened
    assert package / "ops" / "gram" / "forward.py" in opened
    assert len(opened) <= 10, sorted(path.name for path in opened)
