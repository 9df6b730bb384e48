"""Attention over embeddings that already exist: the quadratic, associative and fused orders.

All take maps theta, phi, g of (batch, E, *space) and give y in theta's shape and memory layout.
`ops.gram` and `ops.rank_one` have the orders that do not form these embeddings.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from scalednl.ops.layout import multiplies_in_half, pixel_rows, rows_to_maps
from scalednl.ops.views import Heads, apply_view, merge_heads, split_heads
from scalednl.options import (
    Attention,
    Order,
    View,
    check_attention_options,
    check_order,
    orders_of,
)

FROM_INPUT: tuple[Order, ...] = ("gram", "rank_one")
"""Orders that never form all embeddings, so that they are not among those here"""

Embedding = Float[Tensor, "batch embed *space"]
KeyEmbedding = Float[Tensor, "batch embed *keyspace"]
Queries = Float[Tensor, "batch heads pixels seen"]
Keys = Float[Tensor, "batch heads keys seen"]
Values = Float[Tensor, "batch heads keys width"]


def attention_scale(attention: Attention, keys: int, width: int, scale: bool = True) -> float:
    """The factor before theta . phi without softmax; `width` is the channels of one head.

    Written with `**`, not math.sqrt: a symbolic `keys` must stay symbolic when exported.
    """
    if attention == "mean":
        return keys**-1.0
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
) -> Embedding:
    """y_i = sum_j A_ij g_j, multiplied in the given order; see `attention_map` for A.

    `order="auto"` is "fused" for softmax. Otherwise it is "associative", which is cheaper than
    "quadratic" whenever there are more pixels than channels in a head. phi and g may have fewer
    pixels (keys) than theta. `softmax_scale` is a number, or a tensor with one number per head;
    None is 1/sqrt of the channels of one head.
    """
    _check_embeddings(theta, phi, g, softmax_scale)
    queries, keys, factor = _seen(theta, phi, heads, attention, view, scale, softmax_scale)
    reasons = orders_of(attention, view)
    for name in FROM_INPUT:
        reasons[name] = reasons[name] or (
            "it starts from a block's input, not from embeddings: use scalednl.NonLocal2d"
        )
    check_order(order, reasons)
    values = split_heads(pixel_rows(g), heads)
    if order == "quadratic":
        y = _rows_times(_map(queries, keys, factor, attention), values)
    elif attention == "softmax":
        y = _fused(queries, keys, values, factor)
    else:
        assert not isinstance(factor, Tensor)
        y = _associative(queries, keys, values, factor)
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
) -> Float[Tensor, "batch heads pixels keys"]:
    """A with every factor in it, so that y = A g, head by head; rows are queries, columns keys.

    With theta_i, phi_j the d channels of one head and N the number of keys, A_ij is
    theta_i . phi_j / sqrt(N d) for "scaled", theta_i . phi_j / N for "mean", and the softmax over j
    of t theta_i . phi_j for "softmax", t being `softmax_scale` (None: 1/sqrt(d)).
    """
    _check_embeddings(theta, phi, None, softmax_scale)
    return _map(*_seen(theta, phi, heads, attention, view, scale, softmax_scale), attention)


def _seen(
    theta: Embedding,
    phi: KeyEmbedding,
    heads: int,
    attention: Attention,
    view: View,
    scale: bool,
    softmax_scale: float | Tensor | None,
) -> tuple[Queries, Keys, float | Tensor]:
    """theta and phi as the attention sees them, head by head, and the factor before theta . phi."""
    check_attention_options(theta.shape[1], heads, attention, view, scale)
    width = theta.shape[1] // heads
    queries, keys = (apply_view(split_heads(pixel_rows(v), heads), view) for v in (theta, phi))
    if attention != "softmax":
        return queries, keys, attention_scale(attention, keys.shape[2], width, scale)
    return queries, keys, width**-0.5 if softmax_scale is None else softmax_scale


def _map(
    queries: Queries, keys: Keys, factor: float | Tensor, attention: Attention
) -> Float[Tensor, "batch heads pixels keys"]:
    logits = _tempered(queries, factor) @ keys.mT
    return logits.softmax(dim=-1) if attention == "softmax" else logits


def _associative(queries: Queries, keys: Keys, values: Values, factor: float) -> Heads:
    """theta (phi^T g): the paper's method.

    The factor is applied to the small matrix, except for the part that half precision needs before.
    """
    keys, factor = shared_factor(keys, keys.shape[2], factor)
    context = (keys.mT @ values) * factor
    return _rows_times(queries, context)


def shared_factor(keys: Tensor, count: int, factor: float) -> tuple[Tensor, float]:
    """Take 1/sqrt(N) out of keys that are summed over in half precision, and out of the factor.

    The sum would leave fp16's range before the factor brings it back.
    """
    if not multiplies_in_half(keys):
        return keys, factor
    root = count**-0.5
    return keys * root, factor / root


def _fused(queries: Queries, keys: Keys, values: Values, temperature: float | Tensor) -> Heads:
    """softmax(theta phi^T) g by torch's fused kernel, which never stores the map."""
    if isinstance(temperature, Tensor):
        queries, temperature = _tempered(queries, temperature), 1.0
    width = values.shape[-1]
    queries, keys, values = (_for_kernel(v, width) for v in (queries, keys, values))
    return F.scaled_dot_product_attention(queries, keys, values, scale=temperature)


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


def _tempered(queries: Queries, temperature: float | Tensor) -> Queries:
    if isinstance(temperature, Tensor):
        temperature = temperature.to(queries.dtype).view(-1, 1, 1)
    return queries * temperature


def _rows_times(
    left: Float[Tensor, "batch heads rows inner"], right: Float[Tensor, "batch heads inner columns"]
) -> Float[Tensor, "batch heads rows columns"]:
    """left @ right, laid out in memory so that merging the heads of NCHW embeddings is a view."""
    if left.stride(-1) == 1 == right.stride(-1):
        return left @ right
    return (right.mT @ left.mT).mT


def _check_embeddings(
    theta: Tensor, phi: Tensor, g: Tensor | None, softmax_scale: float | Tensor | None
) -> None:
    for value in (theta, phi, phi if g is None else g):
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
    if theta.shape[:2] != phi.shape[:2] or (g is not None and phi.shape != g.shape):
        raise ValueError(
            "theta, phi and g must agree in batch and channels, and phi and g in every size, "
            f"but got {_shapes(theta, phi, g)}"
        )
    if not (softmax_scale is None or isinstance(softmax_scale, (int, float, Tensor))):
        raise ValueError(
            f"softmax_scale={softmax_scale!r} must be a number, or a tensor with one per head"
        )


def _shapes(theta: Tensor, phi: Tensor, g: Tensor | None) -> str:
    rest = "" if g is None else f", g {tuple(g.shape)}"
    return f"theta {tuple(theta.shape)}, phi {tuple(phi.shape)}{rest}"
