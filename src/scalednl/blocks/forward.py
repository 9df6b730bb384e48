"""The block as a function of its parts, which are modules or plain weights."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from scalednl.blocks import folding
from scalednl.blocks.checks import AXES, check_pool
from scalednl.ops.attention import attention_scale, nonlocal_attention
from scalednl.ops.costs import BlockState
from scalednl.ops.gram.mixing import Projections
from scalednl.ops.layout import Maps, accumulation_dtype, multiplies_in_fp16, pixel_count
from scalednl.ops.masks import Count, Mask, count_pixels, shown
from scalednl.ops.planner import Choice, Plan, choose, make_plan
from scalednl.options import CONVOLUTIONS, Attention, Center, KeyPool, Memory, Order, PoolSize, View

if TYPE_CHECKING:
    from scalednl.blocks.nonlocal_block import NonLocalBlock

Shape = Sequence[int]

_MAX_POOL = (F.max_pool1d, F.max_pool2d, F.max_pool3d)


class Parts(NamedTuple):
    """theta, phi, g and out, each a module or a weight with its bias, and the norm after out."""

    theta: folding.Part
    phi: folding.Part
    g: folding.Part
    out: folding.Part
    norm: Callable[[Tensor], Tensor] | None

    def convolutions(self) -> tuple[folding.Part, folding.Part, folding.Part, folding.Part]:
        """All parts but the norm."""
        return self.theta, self.phi, self.g, self.out

    def weight(self) -> Tensor | None:
        """One weight, to see its dtype and device; None where modules without weights are used."""
        for part in self.convolutions():
            if isinstance(weight := getattr(part, "weight", None), Tensor):
                return weight
        return None

    def projections(self, options: dict[str, Any], keys: Count) -> Projections:
        """The matrices of the convolutions, and the factor for this many keys."""
        theta, phi, g, out = (part.weight.flatten(1) for part in self.convolutions())  # type: ignore[operator]
        heads = options["heads"]
        count = keys.clamp_min(1) if isinstance(keys, Tensor) else keys
        return Projections(
            *(theta, phi, g, out),
            *(self.theta.bias, self.phi.bias, self.g.bias),  # type: ignore[arg-type]
            heads=heads,
            factor=attention_scale(
                options["attention"],
                count,
                theta.shape[0] // heads,
                options["scale"],
                options["reference_pixels"],
            ),
            center=options["center"],
        )


def block_state(
    parts: Parts,
    widths: tuple[int, int],
    heads: int,
    attention: Attention,
    view: View,
    key_pool: KeyPool | None,
    *,
    kernel: tuple[int, ...],
    training: bool,
    norm_training: bool | None = None,
    memory: Memory,
    center: Center | None = None,
    masked: bool = False,
    other_keys: bool = False,
) -> BlockState:
    """What the cost and the order of a block with these parts depend on, as they are now.

    `widths` are its channels and embedding channels; `norm_training` None is the norm's own mode.
    """
    convs, norm, weight = parts.convolutions(), parts.norm, parts.weight()
    C, E = widths
    names = zip(CONVOLUTIONS, convs, strict=True)
    return BlockState(
        *(C, E, heads, attention, view, key_pool),
        pool_kernel=kernel,
        biased=tuple(name for name, conv in names if getattr(conv, "bias", None) is not None),
        batch_norm=norm is not None and not folding.folds_in_evaluation(norm, norm_training),
        folds=folding.folds_in_training(norm),
        plain=all(map(folding.is_pointwise, convs, ((C, E), (C, E), (C, E), (E, C)))),
        training=training,
        memory=memory,
        itemsize=(torch.float32 if weight is None else weight.dtype).itemsize,
        fp16=weight is not None and multiplies_in_fp16(weight),
        center=center,
        masked=masked,
        other_keys=other_keys,
    )


def choice_of(
    state: BlockState, order: Order | Choice, shape: Shape, key_shape: Shape | None
) -> Choice:
    """The choice for an input of this shape, and for other keys of `key_shape`."""
    if key_shape is None:
        return choose(state, order, pixel_count(shape[2:]))
    keys, unpooled = _keys(state, key_shape), pixel_count(key_shape[2:])
    return choose(state, order, pixel_count(shape[2:]), keys, unpooled)


def plan_of(
    state: BlockState, order: Order | Choice, shape: Shape, key_shape: Shape | None
) -> Plan:
    """The plan for the same."""
    attended = shape if key_shape is None else key_shape
    return make_plan(
        state,
        order,
        batch=shape[0],
        pixels=pixel_count(shape[2:]),
        keys=_keys(state, attended),
        unpooled=pixel_count(attended[2:]),
    )


def _keys(state: BlockState, shape: Shape) -> int:
    return pixel_count(key_space(tuple(shape[2:]), state.pool_kernel))


def attention_options(block: "NonLocalBlock") -> dict[str, Any]:
    """The keyword arguments with which `scalednl.functional` computes a block's attention."""
    return {
        "heads": block.heads,
        "attention": block.attention,
        "view": block.view,
        "scale": block.scale,
        "softmax_scale": _temperature(block),
        "center": block.center,
        "reference_pixels": _reference_pixels(block),
    }


def _temperature(block: "NonLocalBlock") -> float | Tensor | None:
    if block.log_softmax_scale is not None:
        return block.log_softmax_scale.exp()
    if block.softmax_scale == "channels":
        return block.channels**-0.5
    if isinstance(block.softmax_scale, (int, float)):
        return float(block.softmax_scale)
    return None


def _reference_pixels(block: "NonLocalBlock") -> float | Tensor | None:
    """R of the attention now; None is the number of keys."""
    running = block.running_pixels
    if running is None:
        return None if block.reference_pixels is None else float(block.reference_pixels)
    # In training the reference is the map itself, as batch norm's statistics are its own.
    if block.training:
        return None
    return running.to(accumulation_dtype(block.dtype or torch.float32))


def embed(
    x: Maps,
    parts: Parts,
    key_pool: KeyPool | None,
    kernel: tuple[int, ...],
    keys: folding.KeyMaps | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """theta of x, and phi and g of the keys, x itself if None, pooled where `key_pool` is set."""
    keys = x if keys is None else keys
    if key_pool == "before":
        keys = pool(keys, kernel)
    theta, phi, g = parts.theta(x), parts.phi(keys), parts.g(keys)
    if key_pool == "after":
        phi, g = pool(phi, kernel), pool(g, kernel)
    return theta, phi, g


def forward(
    x: Maps,
    parts: Parts,
    choice: Choice,
    *,
    keys: folding.KeyMaps | None = None,
    mask: Mask | None = None,
    key_mask: folding.KeyMask | None = None,
    key_pool: KeyPool | None,
    kernel: tuple[int, ...],
    memory: Memory,
    **options: Any,
) -> Maps:
    """x + norm(out(y)) by the chosen order; `options` are those of `nonlocal_attention`.

    `keys` None are the pixels of x where `mask` is True.
    """
    order, fold = choice
    if keys is None:
        key_mask = mask
    else:
        keys = shown(keys, key_mask)
    # A module that took the place of out may have no bias, nor any weight.
    out_bias: Any = getattr(parts.out, "bias", None)
    if order == "gram":
        if key_pool is not None:
            keys = pool(x if keys is None else keys, kernel)
        w = parts.projections(options, _count(x if keys is None else keys, key_mask))
        return folding.add_gram(
            *(x, keys, w, out_bias, parts.norm),
            mask=mask,
            key_mask=key_mask,
            fold=fold,
            memory=memory,
        )
    queries = shown(x, mask)
    if order == "rank_one":
        keys = queries if keys is None else keys
        keys = keys if key_pool is None else pool(keys, kernel)
        w = parts.projections(options, _count(keys, key_mask))
        return folding.add_rank_one(
            *(x, queries, keys, parts.theta, parts.phi, w, out_bias, parts.norm),
            mask=mask,
            key_mask=key_mask,
        )
    embedded = embed(queries, parts, key_pool, kernel, keys)
    y = nonlocal_attention(*embedded, order=order, key_mask=key_mask, **options)
    return folding.add_projected(x, y, parts.out, parts.norm, mask)


def _count(keys: folding.KeyMaps, key_mask: folding.KeyMask | None) -> Count:
    if key_mask is None:
        return pixel_count(keys.shape[2:])
    return count_pixels(key_mask, keys.dtype)


def pool_kernel(key_pool: KeyPool | None, size: PoolSize, dims: int) -> tuple[int, ...]:
    """How many pixels of each axis make one key: ones without `key_pool`; an int leaves time."""
    if key_pool is None:
        return (1,) * dims
    if isinstance(size, int):
        return (1, size, size)[-dims:]
    if len(size) != dims:
        raise ValueError(
            f"key_pool_size={size!r} must have one number for each axis of ({', '.join(AXES[dims])}"
            "), or be a number alone"
        )
    return size


def key_space(space: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of the map of keys for queries of these sizes."""
    check_pool(space, kernel)
    return tuple(size // k for size, k in zip(space, kernel, strict=True))


def pool(x: Maps, kernel: tuple[int, ...]) -> folding.KeyMaps:
    """x, max-pooled."""
    check_pool(x.shape[2:], kernel)
    return _MAX_POOL[len(kernel) - 1](x, kernel)
