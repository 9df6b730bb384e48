"""Attention over embeddings that already exist: the quadratic, associative and fused orders.

All take maps theta, phi, g of (batch, E, *space) and give y in theta's shape and memory layout.
`ops.gram` and `ops.rank_one` have the orders that do not form these embeddings.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from scalednl.attentions import ATTENTIONS
from scalednl.ops.layout import (
    accumulation_dtype,
    autocasts,
    can_be_cast,
    multiplies_in_half,
    per_image,
    pixel_rows,
    rows_to_maps,
)
from scalednl.ops.masks import Count, check_mask, count_pixels, shown
from scalednl.ops.narrow_heads import has_narrow_heads, narrow_attention
from scalednl.ops.own_attention import is_own, own_attention, own_map, seen_by_own
from scalednl.ops.views import Heads, apply_view, merge_heads, split_heads
from scalednl.options import (
    Attention,
    Center,
    Order,
    View,
    check_attention_options,
    check_center,
    check_order,
    check_reference,
    fastest_own,
    orders_of,
)

FROM_INPUT: tuple[Order, ...] = ("gram", "rank_one")
"""Orders that never form all embeddings, so that they are not among those here"""

Embedding = Float[Tensor, "batch embed *space"]
KeyEmbedding = Float[Tensor, "batch embed *keyspace"]
KeyMask = Bool[Tensor, "batch *keyspace"]
Queries = Float[Tensor, "batch heads pixels seen"]
Keys = Float[Tensor, "batch heads keys seen"]
Values = Float[Tensor, "batch heads keys width"]


class _Seen(NamedTuple):
    """theta and phi as the attention sees them, head by head, and the factor before theta . phi."""

    queries: Queries
    keys: Keys
    factor: float | Tensor
    number: Count
    shown: Bool[Tensor, "batch 1 1 keys"] | None
    """The keys that exist; None where all do"""


def attention_scale(
    attention: Attention,
    keys: Count,
    width: int,
    scale: bool = True,
    reference_pixels: float | Tensor | None = None,
) -> float | Tensor:
    """The factor before theta . phi without softmax; `width` is the channels of one head.

    Written with `**`, not math.sqrt: a symbolic `keys` must stay symbolic when exported.
    """
    if not ATTENTIONS[attention].has_pixel_factor:
        return keys**-1.0
    if reference_pixels is not None:
        if isinstance(reference_pixels, Tensor):
            # A running number of 0 has not seen any image.
            reference_pixels = torch.where(reference_pixels > 0, reference_pixels, keys)
        return (reference_pixels / width) ** 0.5 * keys**-1.0
    return (keys * width) ** -0.5 if scale else width**-0.5


def nonlocal_attention(
    theta: Embedding,
    phi: KeyEmbedding,
    g: KeyEmbedding,
    *,
    heads: int = 1,
    attention: Attention = "scaled",
    view: View = "base",
    order: Order = "auto",
    scale: bool = True,
    softmax_scale: float | Tensor | None = None,
    center: Center | None = None,
    reference_pixels: float | Tensor | None = None,
    key_mask: KeyMask | None = None,
) -> Embedding:
    """y_i = sum_j A_ij g_j, multiplied in the given order; see `attention_map` for A.

    `order="auto"` is "fused" for softmax, and for an attention of a user's own the faster order
    that was registered with it, or the reference. Otherwise it is "associative", which is cheaper
    than "quadratic" whenever there are more pixels than channels in a head. phi and g may have
    another number of pixels (keys) than theta. `softmax_scale` is a number, or a tensor with one
    number per head; None is 1/sqrt of the channels of one head.
    """
    _check_embeddings(theta, phi, g, key_mask)
    check_attention_options(theta.shape[1], heads, attention, view, scale)
    check_factors(heads, softmax_scale, reference_pixels)
    check_center(center, attention)
    check_reference(reference_pixels, attention, scale)
    if is_own(attention):
        check_order(order, orders_of(attention, view))
        order = fastest_own(attention) if order == "auto" else order
        embedded = _own(theta, phi, heads, view, key_mask)
        values = split_heads(pixel_rows(shown(g, key_mask)), heads)
        exist = None if key_mask is None else key_mask.flatten(1)
        y = own_attention(*embedded, values, attention, order, exist)
        return rows_to_maps(merge_heads(y), theta.shape[2:])
    seen = _seen(
        *(theta, phi, heads, attention, view, scale, softmax_scale),
        *(center, reference_pixels, key_mask),
    )
    reasons = orders_of(attention, view)
    for name in FROM_INPUT:
        reasons[name] = reasons[name] or (
            "it starts from a block's input, not from embeddings: use scalednl.NonLocal2d"
        )
    check_order(order, reasons)
    values = split_heads(pixel_rows(shown(g, key_mask)), heads)
    if order == "quadratic":
        y = _rows_times(_map(seen, attention), values)
    elif ATTENTIONS[attention].form == "softmax":
        y = _fused(seen, values)
    else:
        y = _associative(seen, values)
    if center == "keys+mean":
        total = values.sum(2, keepdim=True, dtype=accumulation_dtype(values.dtype))
        y = y + (total / per_image(seen.number, 3)).to(y.dtype)
    return rows_to_maps(merge_heads(y), theta.shape[2:])


def attention_map(
    theta: Embedding,
    phi: KeyEmbedding,
    *,
    heads: int = 1,
    attention: Attention = "scaled",
    view: View = "base",
    scale: bool = True,
    softmax_scale: float | Tensor | None = None,
    center: Center | None = None,
    reference_pixels: float | Tensor | None = None,
    key_mask: KeyMask | None = None,
) -> Float[Tensor, "batch heads pixels keys"]:
    """A with every factor in it, so that y = A g, head by head; rows are queries, columns keys.

    With theta_i, phi_j the d channels of one head and N the number of keys, A_ij is
    theta_i . phi_j / sqrt(N d) for "scaled" (sqrt(R / d) / N with `reference_pixels` R),
    theta_i . phi_j / N for "mean", and the softmax over j of t theta_i . phi_j for "softmax", t
    being `softmax_scale` (None: 1/sqrt(d)); others are functions of their own. `center` subtracts
    the mean of every row, and "keys+mean" adds 1/N to it. Columns of keys outside `key_mask` are 0.
    """
    _check_embeddings(theta, phi, None, key_mask)
    check_attention_options(theta.shape[1], heads, attention, view, scale)
    check_factors(heads, softmax_scale, reference_pixels)
    check_center(center, attention)
    check_reference(reference_pixels, attention, scale)
    if is_own(attention):
        exist = None if key_mask is None else key_mask.flatten(1)
        return own_map(*_own(theta, phi, heads, view, key_mask), attention, exist)
    seen = _seen(
        *(theta, phi, heads, attention, view, scale, softmax_scale),
        *(center, reference_pixels, key_mask),
    )
    a = _map(seen, attention)
    if center == "keys+mean":
        a = a + (1 / per_image(seen.number, 3))
    # Only an image without any key has something in its hidden columns.
    return a if seen.shown is None else a.masked_fill(~seen.shown, 0)


def _own(
    theta: Embedding, phi: KeyEmbedding, heads: int, view: View, key_mask: KeyMask | None
) -> tuple[Queries, Keys]:
    """theta and phi as an attention of a user's own sees them, head by head."""
    return (
        seen_by_own(split_heads(pixel_rows(theta), heads), view),
        seen_by_own(split_heads(pixel_rows(shown(phi, key_mask)), heads), view),
    )


def _seen(
    theta: Embedding,
    phi: KeyEmbedding,
    heads: int,
    attention: Attention,
    view: View,
    scale: bool,
    softmax_scale: float | Tensor | None,
    center: Center | None,
    reference_pixels: float | Tensor | None,
    key_mask: KeyMask | None,
) -> _Seen:
    width = theta.shape[1] // heads
    queries = apply_view(split_heads(pixel_rows(theta), heads), view)
    keys = apply_view(split_heads(pixel_rows(shown(phi, key_mask)), heads), view)
    count: Count = keys.shape[2]
    exist = None
    if key_mask is not None:
        # An image without keys has y = 0, whatever the factor.
        count = count_pixels(key_mask, phi.dtype).clamp_min(1)
        exist = key_mask.flatten(1)[:, None, None]
    if center is not None:
        keys = centred(keys, count, exist)
    softmax = ATTENTIONS[attention].form == "softmax"
    if softmax:
        factor = width**-0.5 if softmax_scale is None else softmax_scale
    else:
        factor = attention_scale(attention, count, width, scale, reference_pixels)
    if isinstance(factor, Tensor):
        # One number for all, one per head, or one per image.
        axes = (-1, 1, 1) if softmax else (-1, 1, 1, 1)
        factor = factor.view(axes)
    return _Seen(queries, keys, factor, count, exist)


def centred(keys: Keys, count: Count, exist: Bool[Tensor, "batch 1 1 keys"] | None = None) -> Keys:
    """Keys minus their mean; those that do not exist stay 0."""
    total = keys.sum(2, keepdim=True, dtype=accumulation_dtype(keys.dtype))
    keys = keys - (total / per_image(count, 3)).to(keys.dtype)
    return keys if exist is None else keys.masked_fill(~exist.mT, 0)


def _map(seen: _Seen, attention: Attention) -> Float[Tensor, "batch heads pixels keys"]:
    logits = _times(seen.queries, seen.factor) @ seen.keys.mT
    if ATTENTIONS[attention].form != "softmax":
        return logits
    if seen.shown is not None:
        logits = logits.masked_fill(~_never_empty(seen.shown), float("-inf"))
    return logits.softmax(dim=-1)


def _never_empty(exist: Bool[Tensor, "batch 1 1 keys"]) -> Bool[Tensor, "batch 1 1 keys"]:
    """The keys that exist, all of them for an image without any: its values are zeros."""
    return exist | ~exist.any(-1, keepdim=True)


def _associative(seen: _Seen, values: Values) -> Heads:
    """theta (phi^T g): the paper's method.

    The factor is applied to the small matrix, except for the part that half precision needs before.
    """
    keys, factor = shared_factor(seen.keys, seen.keys.shape[2], seen.factor)
    return _rows_times(seen.queries, _times(keys.mT @ values, factor))


def shared_factor(
    keys: Tensor, count: int, factor: float | Tensor
) -> tuple[Tensor, float | Tensor]:
    """Take 1/sqrt(N) out of keys that are summed over in half precision, and out of the factor.

    The sum would leave fp16's range before the factor brings it back.
    """
    if not multiplies_in_half(keys):
        return keys, factor
    root = count**-0.5
    return keys * root, factor / root


def _fused(seen: _Seen, values: Values) -> Heads:
    """softmax(theta phi^T) g by torch's fused kernel, which never stores the map."""
    queries, temperature = seen.queries, seen.factor
    if isinstance(temperature, Tensor):
        queries, temperature = _times(queries, temperature), 1.0
    width = values.shape[-1]
    queries, keys, values = (_for_kernel(v, width) for v in (queries, seen.keys, values))
    exist = None if seen.shown is None else _never_empty(seen.shown)
    if exist is None and has_narrow_heads(queries, keys):
        return narrow_attention(queries, keys, values, temperature)
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=exist, scale=temperature)


def _for_kernel(
    split: Float[Tensor, "batch heads pixels seen"], width: int
) -> Float[Tensor, "batch heads pixels {width}"]:
    """Rows of `width` channels, each in one piece, the heads of a pixel side by side.

    Given anything else, torch quietly stores the map after all. So lengths are padded with zeros
    and NCHW embeddings copied, in the order in which the heads merge without another copy.
    """
    by_pixel = split.transpose(1, 2)
    if by_pixel.shape[-1] != width:
        by_pixel = F.pad(by_pixel, (0, width - by_pixel.shape[-1]))
    elif by_pixel.stride(-1) != 1:
        by_pixel = by_pixel.contiguous()
    return by_pixel.transpose(1, 2)


def _times(rows: Tensor, factor: float | Tensor) -> Tensor:
    return rows * (factor.to(rows.dtype) if isinstance(factor, Tensor) else factor)


def _rows_times(
    left: Float[Tensor, "batch heads rows inner"], right: Float[Tensor, "batch heads inner columns"]
) -> Float[Tensor, "batch heads rows columns"]:
    """left @ right, laid out in memory so that merging the heads of NCHW embeddings is a view."""
    if left.stride(-1) == 1 == right.stride(-1):
        return left @ right
    return (right.mT @ left.mT).mT


def _check_embeddings(
    theta: Tensor,
    phi: Tensor,
    g: Tensor | None,
    key_mask: Tensor | None,
) -> None:
    given = (theta, phi) if g is None else (theta, phi, g)
    for value in given:
        if not isinstance(value, Tensor):
            raise ValueError(f"embeddings are torch tensors, but one is a {type(value).__name__}")
        if value.dim() < 3:
            raise ValueError(
                f"embeddings are (batch, channels, *space), but got {_shapes(theta, phi, g)}"
            )
        if not value.is_floating_point():
            raise ValueError(f"embeddings must be floating point, but one is {value.dtype}")
        if any(statically_known_true(size < 1) for size in value.shape[2:]):
            raise ValueError(
                f"embeddings need at least one pixel, but got {_shapes(theta, phi, g)}"
            )
    names = "theta and phi" if g is None else "theta, phi and g"
    if any(value.device != theta.device for value in given):
        devices = ", ".join(str(value.device) for value in given)
        raise ValueError(f"{names} must be on one device, but are on {devices}")
    dtypes = [value.dtype for value in given]
    castable = can_be_cast(*dtypes)
    if any(dtype != theta.dtype for dtype in dtypes) and not (castable and autocasts(theta)):
        hint = ", or run under torch.autocast" if castable else ""
        raise ValueError(
            f"{names} must have one dtype, but have {', '.join(map(str, dtypes))}: cast them{hint}"
        )
    if theta.shape[:2] != phi.shape[:2] or (g is not None and phi.shape != g.shape):
        raise ValueError(
            "theta, phi and g must agree in batch and channels, and phi and g in every size, "
            f"but got {_shapes(theta, phi, g)}"
        )
    if key_mask is not None:
        check_mask("key_mask", key_mask, phi)


def check_factors(
    heads: int, softmax_scale: float | Tensor | None, reference_pixels: float | Tensor | None
) -> None:
    """Raise unless a tensor in the place of a number has one number, or one per head."""
    if not (softmax_scale is None or isinstance(softmax_scale, (int, float, Tensor))):
        raise ValueError(
            f"softmax_scale={softmax_scale!r} must be a number, or a tensor with one per head"
        )
    if isinstance(softmax_scale, Tensor) and softmax_scale.numel() not in (1, heads):
        raise ValueError(
            f"softmax_scale must have one number per head, {heads}, or one for all, but has shape "
            f"{tuple(softmax_scale.shape)}"
        )
    if isinstance(reference_pixels, Tensor) and reference_pixels.numel() != 1:
        raise ValueError(
            f"reference_pixels must be one number, but has shape {tuple(reference_pixels.shape)}"
        )


def _shapes(theta: Tensor, phi: Tensor, g: Tensor | None) -> str:
    rest = "" if g is None else f", g {tuple(g.shape)}"
    return f"theta {tuple(theta.shape)}, phi {tuple(phi.shape)}{rest}"
