"""Masks and other keys: pixels that do not exist, and maps that attend to another one."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.attentions import ATTENTIONS
from scalednl.ops.planner import Choice
from scalednl.options import VIEWS, orders_of
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

Options = dict[str, Any]
SPACE, OTHER = (4, 5), (3, 7)
BLOCKS = {1: scalednl.NonLocal1d, 2: scalednl.NonLocal2d, 3: scalednl.NonLocal3d}

ORDERED: list[tuple[Options, Choice]] = [
    ({"attention": attention, "view": view, "bias": bias}, Choice(order))
    for attention in ATTENTIONS
    for view in VIEWS
    for order, reason in orders_of(attention, view).items()
    if not reason
    for bias in (False, True)
]
CASES: list[tuple[Options, Choice]] = [
    *ORDERED,
    ({}, Choice("gram", True)),
    ({"memory": "lean"}, Choice("gram", True)),
    ({"memory": "lean"}, Choice("gram")),
    ({"bias": ("theta", "phi", "g")}, Choice("gram", True)),
    *(
        ({"center": center, "view": view}, choice)
        for center in ("keys", "keys+mean")
        for view, choice in [
            ("base", Choice("gram")),
            ("base", Choice("gram", True)),
            ("base", Choice("associative")),
            ("direction", Choice("quadratic")),
            ("magnitude", Choice("rank_one")),
        ]
    ),
    ({"center": "keys+mean", "bias": True}, Choice("gram")),
    ({"center": "keys+mean", "bias": True, "view": "magnitude"}, Choice("rank_one")),
    ({"center": "keys", "memory": "lean"}, Choice("gram", True)),
    ({"reference_pixels": 9}, Choice("gram", True)),
    ({"reference_pixels": 9}, Choice("associative")),
    ({"reference_pixels": "running"}, Choice("gram")),
    ({"scale": False}, Choice("gram", True)),
    ({"norm": False}, Choice("gram")),
    ({"norm": False, "attention": "softmax"}, Choice("fused")),
    ({"attention": "softmax", "softmax_scale": "learned"}, Choice("fused")),
    ({"embed_channels": 4}, Choice("gram", True)),
]


def _name(value: object) -> str:
    if isinstance(value, dict):
        return "-".join(f"{k}={v}" for k, v in value.items() if v not in (None, False)) or "plain"
    return str(value)


def _block(options: Options, choice: Choice, dims: int = 2) -> scalednl.NonLocal2d:
    block = BLOCKS[dims](6, heads=2, **options).double()
    return force(randomise(block), choice)  # type: ignore[return-value]


def _maps(layout: str = "nchw", space: tuple[int, ...] = SPACE, batch: int = 3) -> Tensor:
    return laid_out(torch.randn(batch, 6, *space, dtype=torch.float64) + 0.5, layout)


def _mask(space: tuple[int, ...] = SPACE, batch: int = 3) -> Tensor:
    """Two images with holes, the last complete."""
    mask = torch.rand(batch, *space) > 0.4
    mask[-1] = True
    mask[:, 0] = True
    return mask


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize(("options", "choice"), CASES, ids=_name)
def test_a_mask_equals_the_reference(
    options: Options, choice: Choice, training: bool, layout: str
) -> None:
    """Output and all gradients are those of the equations in which hidden pixels do not exist."""
    block = _block(options, choice).train(training)
    x, mask = _maps(layout), _mask()
    grad = torch.randn_like(x)
    truth = with_gradients(None, block, x, grad, mask=mask)
    assert_close_all(with_gradients(block, block, x, grad, mask=mask), truth, 1e-10)
    if not training:
        with torch.no_grad():
            assert_close(block(x, mask=mask), truth[0], 1e-10, "z without autograd")


@pytest.mark.parametrize(
    ("masks", "layout"),
    [("", "nchw"), ("mask key_mask", "channels_last"), ("key_mask", "nchw")],
)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize(("options", "choice"), CASES, ids=_name)
def test_other_keys_equal_the_reference(
    options: Options, choice: Choice, training: bool, masks: str, layout: str
) -> None:
    """x attends to a map of another size, of which only some pixels may exist."""
    block = _block(options, choice).train(training)
    x, keys = _maps(layout), _maps(layout, OTHER)
    given = {name: _mask(SPACE if name == "mask" else OTHER) for name in masks.split()}
    grad = torch.randn_like(x)
    truth = with_gradients(None, block, x, grad, keys=keys, **given)
    assert_close_all(with_gradients(block, block, x, grad, keys=keys, **given), truth, 1e-10)
    if not training:
        with torch.no_grad():
            assert_close(block(x, keys=keys, **given), truth[0], 1e-10, "z without autograd")


@pytest.mark.parametrize("order", ["gram", "associative", "fused"])
@pytest.mark.parametrize("pool", ["before", "after"])
def test_other_keys_are_pooled(order: str, pool: str) -> None:
    """key_pool pools the other map."""
    if (order, pool) == ("gram", "after"):
        order = "quadratic"
    options = {"key_pool": pool, "attention": "softmax" if order == "fused" else "scaled"}
    block = _block(options, Choice(order))  # type: ignore[arg-type]
    x, keys = _maps(), _maps(space=(4, 7))
    grad = torch.randn_like(x)
    truth = with_gradients(None, block, x, grad, keys=keys)
    assert_close_all(with_gradients(block, block, x, grad, keys=keys), truth, 1e-10)


@pytest.mark.parametrize("dims", BLOCKS)
def test_masks_over_sequences_and_videos(dims: int) -> None:
    """One to three dimensions are the same."""
    space = {1: (11,), 2: (4, 6), 3: (2, 4, 3)}[dims]
    block = _block({}, Choice("gram", True), dims)
    x, mask = _maps("channels_last", space), _mask(space)
    grad = torch.randn_like(x)
    truth = with_gradients(None, block, x, grad, mask=mask)
    assert_close_all(with_gradients(block, block, x, grad, mask=mask), truth, 1e-10)


def _padded() -> tuple[list[Tensor], Tensor, Tensor]:
    """Three images of different sizes, as one batch filled up with NaN, and its mask."""
    images = [torch.randn(6, *size, dtype=torch.float64) for size in ((3, 5), (4, 2), (4, 5))]
    x = torch.full((3, 6, *SPACE), torch.nan, dtype=torch.float64)
    mask = torch.zeros(3, *SPACE, dtype=torch.bool)
    for number, image in enumerate(images):
        height, width = image.shape[1:]
        x[number, :, :height, :width] = image
        mask[number, :height, :width] = True
    return images, x, mask


@pytest.mark.parametrize(("options", "choice"), CASES, ids=_name)
def test_a_padded_batch_equals_its_images_one_by_one(options: Options, choice: Choice) -> None:
    """In evaluation; NaN in the padding reaches neither the output nor any gradient."""
    block = _block(options, choice).eval()
    images, x, mask = _padded()
    x.requires_grad_()
    z = block(x, mask=mask)
    for number, image in enumerate(images):
        height, width = image.shape[1:]
        assert_close(z[number, :, :height, :width], block(image[None])[0], 1e-10)
    hidden = ~mask[:, None].expand_as(z)
    assert z[hidden].isnan().all(), "z is x in the padding"
    with torch.no_grad():
        again = block(x, mask=mask)
    assert again[hidden].isnan().all()
    assert_close(again[~hidden], z[~hidden], 1e-10, "z without autograd")
    z.masked_fill(~mask[:, None], 0).square().sum().backward()
    for tensor in (x, *block.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()


@pytest.mark.parametrize("choice", [Choice("gram", True), Choice("gram"), Choice("associative")])
@pytest.mark.parametrize("options", [{}, {"center": "keys"}], ids=_name)
def test_training_statistics_are_over_all_valid_pixels(options: Options, choice: Choice) -> None:
    """The running statistics move as those of torch's norm over the branch's valid pixels."""
    block = _block(options, choice)
    _, x, mask = _padded()
    norm = block.norm
    assert isinstance(norm, nn.BatchNorm2d)
    before = norm.state_dict()
    before = {name: value.clone() for name, value in before.items()}
    block(x, mask=mask)
    bare = _block(options, Choice("associative"))
    bare.load_state_dict(block.state_dict())
    bare.norm = None
    filled = x.nan_to_num()
    u = (reference_block(bare, filled, mask=mask) - filled).movedim(1, -1)[mask]
    torch_norm = nn.BatchNorm2d(6).double()
    torch_norm.load_state_dict(before)
    torch_norm(u.mT[None, :, :, None])
    assert_close(norm.running_mean, torch_norm.running_mean, 1e-10)  # type: ignore[arg-type]
    assert_close(norm.running_var, torch_norm.running_var, 1e-10)  # type: ignore[arg-type]
    assert int(norm.num_batches_tracked) == int(before["num_batches_tracked"]) + 1  # type: ignore[arg-type]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("options", "choice"), CASES, ids=_name)
def test_nothing_exists(options: Options, choice: Choice, training: bool) -> None:
    """An all-false mask gives z = x, finite zero gradients, and unchanged running statistics."""
    block = _block(options, choice).train(training)
    x, mask = _maps(), torch.zeros(3, *SPACE, dtype=torch.bool)
    before = {name: value.clone() for name, value in block.named_buffers()}
    z = block(x, mask=mask)
    assert torch.equal(z, x)
    z.sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))  # type: ignore[arg-type]
    for parameter in block.parameters():
        assert parameter.grad is None or not parameter.grad.any()
    for name, value in block.named_buffers():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize(("options", "choice"), CASES, ids=_name)
def test_one_image_without_pixels_among_others(options: Options, choice: Choice) -> None:
    """It stays x, and the others are as if it were not there, statistics included."""
    block = _block(options, choice)
    x, mask = _maps().detach(), _mask()
    mask[1] = False
    z = block(x, mask=mask)
    assert torch.equal(z[1], x[1])
    others = [0, 2]
    assert_close(z[others], block(x[others], mask=mask[others]), 1e-10)


@pytest.mark.parametrize("choice", [Choice("gram", True), Choice("gram"), Choice("quadratic")])
def test_second_derivatives_with_a_mask(choice: Choice) -> None:
    """Gradients of gradients are those of finite differences."""
    block = _block({"center": "keys"}, choice)
    x, mask = _maps(space=(2, 3)), _mask((2, 3))
    assert torch.autograd.gradgradcheck(lambda x: block(x, mask=mask), (x,))
    keys = _maps(space=(1, 4))
    assert torch.autograd.gradgradcheck(lambda x, k: block(x, keys=k), (x, keys))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("choice", [Choice("gram", True), Choice("gram"), Choice("associative")])
@pytest.mark.parametrize("kind", ["mask", "keys"])
def test_half_precision(dtype: torch.dtype, choice: Choice, kind: str) -> None:
    """Under autocast and in pure half precision, near the float64 result."""
    exact = _block({"center": "keys"}, choice).eval()
    x, mask, keys = _maps().detach(), _mask(), _maps(space=OTHER).detach()

    def call(block: nn.Module, cast: Callable[[Tensor], Tensor]) -> Tensor:
        given = {"mask": mask} if kind == "mask" else {"keys": cast(keys)}
        return block(cast(x), **given)

    truth = call(exact, lambda v: v)
    half = _block({"center": "keys"}, choice).eval()
    half.load_state_dict(exact.state_dict())
    found = call(half.to(dtype), lambda v: v.to(dtype))
    assert found.dtype == dtype
    assert_close(found, truth, 0.05)
    with torch.autocast("cpu", dtype=dtype):
        found = call(half.float(), lambda v: v.to(dtype))
    assert_close(found, truth, 0.05)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mask": torch.ones(3, 4, 4, dtype=torch.bool)}, r"mask must be \(batch, \*space\)"),
        ({"mask": torch.ones(3, 1, *SPACE, dtype=torch.bool)}, r"but got \(3, 1, 4, 5\)"),
        ({"mask": torch.ones(3, *SPACE)}, r"mask must be bool.*torch.float32.*mask > 0"),
        ({"mask": [True]}, "mask must be a bool tensor, but got a list"),
        ({"keys": torch.randn(3, 5, *OTHER).double()}, r"keys of NonLocal2d.*got 5 channels"),
        ({"keys": torch.randn(2, 6, *OTHER).double()}, "keys must have the batch"),
        ({"keys": torch.randn(3, 6, *OTHER)}, r"torch.float32.*and x is.*torch.float64"),
        ({"key_mask": torch.ones(3, *OTHER, dtype=torch.bool)}, "key_mask belongs to keys"),
        (
            {
                "keys": torch.randn(3, 6, *OTHER).double(),
                "key_mask": torch.ones(3, *SPACE, dtype=torch.bool),
            },
            r"key_mask must be .* = \(3, 3, 7\)",
        ),
    ],
)
def test_bad_input(given: Options, said: str) -> None:
    """Masks and keys that do not fit are refused with what was passed, and nothing changes."""
    block = _block({}, Choice("gram", True))
    before = {name: value.clone() for name, value in block.state_dict().items()}
    with pytest.raises(ValueError, match=said):
        block(_maps(), **given)
    for name, value in block.state_dict().items():
        assert torch.equal(value, before[name])


def test_what_a_mask_cannot_go_with() -> None:
    """Pooled keys, and norms whose statistics would include what does not exist."""
    mask = _mask()
    pooled = _block({"key_pool": "before"}, Choice("gram"))
    with pytest.raises(ValueError, match="mask and key_pool='before' exclude each other"):
        pooled(_maps(), mask=mask)
    keys = _maps(space=OTHER)
    with pytest.raises(ValueError, match="key_mask and key_pool='before' exclude each other"):
        pooled(_maps(), keys=keys, key_mask=_mask(OTHER))
    pooled(_maps(), keys=keys, mask=mask)
    grouped = scalednl.NonLocal2d(6, heads=2, norm_layer=lambda c: nn.GroupNorm(2, c)).double()
    with pytest.raises(ValueError, match="a mask needs batch norm or none, but the norm is Group"):
        grouped(_maps(), mask=mask)


def test_the_map_with_masks_and_keys() -> None:
    """y = A g; columns of hidden keys are 0, and rows of softmax sum to 1 over the others."""
    block = _block({"attention": "softmax"}, Choice("quadratic"))
    x, mask, keys, key_mask = _maps(), _mask(), _maps(space=OTHER), _mask(OTHER)
    a = block.attention_map(x, mask=mask)
    assert not a.transpose(1, 3)[~mask.flatten(1)].any()
    assert_close(a.sum(-1), torch.ones_like(a[..., 0]), 1e-12)
    assert block.attention_map(x, keys=keys, key_mask=key_mask).shape == (3, 2, 20, 21)
    with pytest.raises(ValueError, match="key_mask belongs to keys"):
        block.attention_map(x, key_mask=key_mask)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("options", "choice"), CASES[-14:], ids=_name)
def test_x_as_its_own_keys(options: Options, choice: Choice, masked: bool) -> None:
    """block(x, keys=x) is block(x) in values, gradients and statistics."""
    block, same = (_block(options, choice) for _ in range(2))
    same.load_state_dict(block.state_dict())
    x, mask = _maps(), _mask() if masked else None
    found = []
    for weights, given in ((block, {}), (same, {"keys": x, "key_mask": mask})):
        z = weights(x, mask=mask, **given)
        found.append((z, *torch.autograd.grad(z.square().mean(), [x, *weights.parameters()])))
    assert_close_all(found[1], found[0], 1e-9)
    for ours, truth in zip(same.buffers(), block.buffers(), strict=True):
        assert_close(ours.double(), truth.double(), 1e-9)


@pytest.mark.parametrize("memory", ["auto", "lean"])
@pytest.mark.parametrize("center", [None, "keys"])
def test_any_one_input_may_need_a_gradient(center: str | None, memory: str) -> None:
    """x, other keys or a single parameter alone gets the gradient that it has among all."""
    block = _block({"center": center, "memory": memory}, Choice("gram"))
    x, keys, mask, key_mask = _maps(), _maps(space=OTHER), _mask(), _mask(OTHER)

    def call() -> Tensor:
        return block(x, keys=keys, mask=mask, key_mask=key_mask).square().mean()

    inputs = [x, keys, *block.parameters()]
    every = torch.autograd.grad(call(), inputs)
    for index, (one, truth) in enumerate(zip(inputs, every, strict=True)):
        for other in inputs:
            other.requires_grad_(other is one)
        assert_close(torch.autograd.grad(call(), one)[0], truth, 1e-10, str(index))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("options", "choice"), CASES[-14:], ids=_name)
def test_no_images(options: Options, choice: Choice, training: bool) -> None:
    """An empty batch goes both ways, changes no statistics, and gives no gradient but zeros."""
    block = _block(options, choice).train(training)
    x = _maps(batch=0)
    nothing = torch.zeros(0, *SPACE, dtype=torch.bool)
    statistics = ("norm.running_mean", "norm.running_var")
    before = {n: b.clone() for n, b in block.named_buffers() if n in statistics}
    for given in ({"mask": nothing}, {"keys": x}, {"keys": x, "key_mask": nothing}):
        block(x, **given).sum().backward()
    assert all(torch.equal(block.get_buffer(name), value) for name, value in before.items())
    gradients = [p.grad for p in block.parameters() if p.grad is not None]
    assert all(not gradient.any() for gradient in gradients)
