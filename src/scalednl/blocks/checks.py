"""What a block can be given: inputs, attributes, and the values of tracers.

Errors repeat what was passed and what would work.
"""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.fx.experimental.symbolic_shapes import statically_known_true

from scalednl.blocks.masked_norm import Norm, reason_against_mask
from scalednl.ops.layout import autocasts, can_be_cast
from scalednl.ops.masks import check_mask
from scalednl.ops.planner import Choice
from scalednl.options import MEMORIES, check_name, check_order, orders_of

if TYPE_CHECKING:
    from scalednl.blocks.nonlocal_block import NonLocalBlock

FIXED = (
    *("channels", "embed_channels", "heads", "attention", "view", "key_pool", "scale"),
    *("softmax_scale", "center", "reference_pixels", "key_pool_size"),
)
AXES = {1: ("length",), 2: ("height", "width"), 3: ("time", "height", "width")}


def check_input(name: str, x: Tensor, channels: int, dims: int, dtype: torch.dtype | None) -> None:
    """Raise unless the block `name` can take x; `dtype` is that of its weights, None if unknown."""
    if not isinstance(x, Tensor):
        raise ValueError(f"{name} takes a torch tensor, but got a {type(x).__name__}")
    check_shape(name, tuple(x.shape), channels, dims)
    if not x.is_floating_point():
        raise ValueError(f"{name} takes floating-point maps, but got {x.dtype}")
    if dtype is None or x.dtype == dtype:
        return
    castable = can_be_cast(x.dtype, dtype)
    if not (castable and autocasts(x)):
        hint = ", or run under torch.autocast" if castable else ""
        raise ValueError(
            f"x is {x.dtype} but the block's weights are {dtype}: call block.to(x.dtype){hint}"
        )


def check_call(
    block: "NonLocalBlock",
    x: Tensor,
    mask: Tensor | None = None,
    keys: Tensor | None = None,
    key_mask: Tensor | None = None,
) -> None:
    """Raise unless the block can be called with these."""
    name = type(block).__name__
    check_input(name, x, block.channels, block.dims, block.dtype)
    if not (mask is None is keys is key_mask):
        check_keys_and_masks(
            *(name, x, keys, mask, key_mask),
            channels=block.channels,
            key_pool=block.key_pool,
            norm=block.norm,
        )


def check_shape(name: str, shape: tuple[int, ...], channels: int, dims: int) -> None:
    """Raise unless `shape` is (batch, channels, *space) with `dims` sizes of space."""
    axes = ", ".join(("batch", "channels", *AXES[dims]))
    if len(shape) != dims + 2:
        raise ValueError(f"{name} takes ({axes}), but got {len(shape)} axes: shape {shape}")
    if shape[1] != channels:
        hint = f"; it takes ({axes})" if shape[-1] == channels else ""
        raise ValueError(
            f"{name}(channels={channels}) got {shape[1]} channels: shape {shape}{hint}"
        )
    if any(statically_known_true(size < 1) for size in shape[2:]):
        raise ValueError(f"{name} needs at least one pixel, but got shape {shape}")


def check_planned(name: str, shape: Sequence[int], channels: int, dims: int) -> None:
    """Raise unless `shape` is that of an input of the block `name`, in plain numbers."""
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError(f"plan takes the shape of an input, such as x.shape, but got {sizes}")
    check_shape(name, sizes, channels, dims)


def check_keys_and_masks(
    name: str,
    x: Tensor,
    keys: Tensor | None,
    mask: Tensor | None,
    key_mask: Tensor | None,
    *,
    channels: int,
    key_pool: str | None,
    norm: Norm,
) -> None:
    """Raise unless other keys and masks fit x and the block `name`."""
    if keys is not None:
        if not isinstance(keys, Tensor):
            raise ValueError(f"keys must be a torch tensor, but got a {type(keys).__name__}")
        check_shape(f"the keys of {name}", tuple(keys.shape), channels, x.dim() - 2)
        if keys.shape[0] != x.shape[0] or keys.dtype != x.dtype or keys.device != x.device:
            raise ValueError(
                "keys must have the batch, dtype and device of x, but keys are "
                f"{tuple(keys.shape)}, {keys.dtype}, {keys.device} and x is {tuple(x.shape)}, "
                f"{x.dtype}, {x.device}"
            )
    if key_mask is not None and keys is None:
        raise ValueError(
            "key_mask belongs to keys, which were not given: mask alone is that of queries and keys"
        )
    for word, given, maps in (("mask", mask, x), ("key_mask", key_mask, keys)):
        if given is None or maps is None:
            continue
        check_mask(word, given, maps)
        if key_pool is not None and (word == "key_mask" or keys is None):
            raise ValueError(
                f"{word} and key_pool={key_pool!r} exclude each other: a pooled key would be of "
                "pixels that exist and of others; use key_pool=None"
            )
    if mask is not None and (reason := reason_against_mask(norm)):
        raise ValueError(reason)


def check_pool(space: Sequence[int], kernel: tuple[int, ...]) -> None:
    """Raise unless a map of these sizes can be pooled by `kernel`."""
    if any(k > 1 and size < k for size, k in zip(space, kernel, strict=True)):
        raise ValueError(
            f"key_pool pools by {kernel}, which a map of {tuple(space)} is too small for: "
            "use a smaller key_pool_size, or key_pool=None"
        )


def check_assignment(block: nn.Module, name: str, value: Any) -> None:
    """Raise unless a block can take `value` as its attribute `name`."""
    if name in FIXED and name in block.__dict__ and value != block.__dict__[name]:
        raise AttributeError(
            f"{name} is fixed when the block is made: make a {type(block).__name__} with "
            f"{name}={value!r} and load this one's state_dict into it"
        )
    if name == "order":
        order = value.order if isinstance(value, Choice) else value
        options = block.__dict__
        check_order(
            order, orders_of(options["attention"], options["view"], key_pool=options["key_pool"])
        )
    if name == "memory":
        check_name("memory", value, MEMORIES)


def warn_of_dead_block(init: str | float) -> None:
    """Warn of init=0.0, for the caller of the block's constructor."""
    if init == 0:
        warnings.warn(
            "init=0.0 makes a dead block: with theta, phi, g and out all zero, each one's gradient "
            "is a product with another's output, hence zero for ever, and only a norm's bias can "
            'train. Use init="he" or a small standard deviation unless you reproduce the column '
            "sigma = 0 of the paper's Table 2",
            stacklevel=3,
        )


def fx_node(module: nn.Module, x: Any, **named: Any) -> Any:
    """The module's result as one node of the fx graph that x is traced into; None if x is no proxy.

    A proxy has no shape, from which a block picks its order. This works with the tracer of any
    library (feature extraction, quantisation), because no tracer has to know of it.
    """
    if not isinstance(x, Proxy):
        return None
    if not (path := x.tracer.path_of_module(module)):  # type: ignore[attr-defined]
        raise ValueError(
            f"torch.fx treats a {type(module).__name__} as one node, so it cannot be traced alone: "
            "trace the network around it, or use torch.export.export"
        )
    given = {name: value for name, value in named.items() if value is not None}
    return x.tracer.create_proxy("call_module", path, (x,), given)


def refuse_torchscript(block: nn.Module) -> NoReturn:
    """Raise with what to use instead of torch.jit."""
    raise RuntimeError(
        f"{type(block).__name__} picks its order from the shape of its input, which TorchScript "
        "(torch.jit.trace, torch.jit.script, torch.onnx.export without dynamo=True) cannot record: "
        "use torch.export.export, or scalednl.export_model"
    )
