"""What each order costs: multiply-adds of its matrix products and bytes kept for backward.

Both are exact, for one image and one block: n query pixels, m keys, C channels, E embedding
channels in heads of d = E / heads. `bytes_kept` leaves out the block's own parameters, which exist
anyway, vectors of one number per channel, and the masks of pixels. Multiply-adds are those on a
processor: other devices and compiled programs multiply all of x^T x also where it is large.

`work` is what the planner compares, in multiply-adds. Products with a side narrower than `narrow`
count as if it were that wide, because vector units then run partly empty; and every number moved
to or from memory beside the products counts as `move` multiply-adds. The two constants were fitted
to measurements on a CPU, where the choice is not sensitive to them. `python -m benchmarks.planner`
fits them to another device, and `ops.planner.use_constants` sets them.
"""

from math import prod
from typing import NamedTuple

from scalednl.attentions import ATTENTIONS
from scalednl.options import Attention, Center, KeyPool, Memory, Order, View, orders_of

INDEX_BYTES = 8
MIRRORED = 256
"""Channels from which it pays not to multiply all of x^T x"""


Keys = tuple[int, int]
"""m, and the number of pixels before pooling"""


class BlockState(NamedTuple):
    """All that the cost of a block and the choice of its order depend on, but for the map's size.

    Sizes and options of the block, the mode it is in, and which modules stand in its places.
    """

    channels: int
    embed_channels: int
    heads: int
    attention: Attention = "scaled"
    view: View = "base"
    key_pool: KeyPool | None = None
    pool_kernel: tuple[int, ...] = ()
    """How many pixels of each axis make one key"""
    biased: tuple[str, ...] = ()
    """The convolutions with a bias"""
    batch_norm: bool = True
    """Whether there is a norm that must see its batch"""
    folds: bool = True
    """Whether that norm may fold into the gram order"""
    plain: bool = True
    """Whether the convolutions' weights may be used without calling them"""
    training: bool = True
    memory: Memory = "auto"
    itemsize: int = 4
    """Bytes of one number of x; sums are kept in at least 4"""
    fp16: bool = False
    """Whether products are float16, so that a large embedding or branch overflows"""
    center: Center | None = None
    masked: bool = False
    """Whether some pixels of x may not exist"""
    other_keys: bool = False
    """Whether the keys are another map than x"""

    def key_ratio(self) -> int:
        """How many pixels make one key."""
        return prod(self.pool_kernel)

    def orders(self) -> dict[Order, str]:
        """Every order with the reason why this block cannot use it now, or "" where it can."""
        return orders_of(self.attention, self.view, key_pool=self.key_pool, plain=self.plain)


class Constants(NamedTuple):
    """What weighs moving numbers against multiplying them, on one kind of device."""

    move: int = 32
    """Multiply-adds that take as long as moving one number to or from memory"""
    narrow: int = 32
    """The side of a product below which its units run partly empty"""


CPU = Constants()


class Cost(NamedTuple):
    """The cost of one order for one image."""

    multiply_adds: int
    bytes_kept: int
    work: int


class _Count(NamedTuple):
    """Multiply-adds and numbers moved, in forward and in backward, and bytes kept between them."""

    forward: int
    backward: int
    moved: int
    moved_backward: int
    kept: int


def cost(
    order: str,
    fold: bool,
    s: BlockState,
    n: int,
    m: int,
    unpooled: int | None = None,
    constants: Constants = CPU,
) -> Cost:
    """The cost of `order` with n query pixels and m keys; `fold`: batch norm folded in training.

    `unpooled` is the number of pixels of another map that was pooled to m keys; None is as many as
    make m keys where nothing is left over.
    """
    if not s.other_keys:
        unpooled = n
    elif unpooled is None:
        unpooled = s.key_ratio() * m
    narrow = constants.narrow
    exact, weighed = (_count(order, fold, s, n, (m, unpooled), side) for side in (1, narrow))
    if not s.training:
        return Cost(exact.forward, 0, weighed.forward + constants.move * weighed.moved)
    moved = weighed.moved + weighed.moved_backward
    return Cost(
        exact.forward + exact.backward,
        exact.kept,
        weighed.forward + weighed.backward + constants.move * moved,
    )


def _count(order: str, fold: bool, s: BlockState, n: int, keys: Keys, narrow: int) -> _Count:
    if order == "gram":
        return _gram(s, n, keys, fold, narrow)
    if order == "rank_one":
        return _rank_one(s, n, keys, narrow)
    return _embedded(s, n, keys, order, narrow)


def _embedded(s: BlockState, n: int, keys: Keys, order: str, narrow: int) -> _Count:
    """quadratic, associative and fused: theta, phi, g and y exist at every pixel."""
    C, E, heads = s.channels, s.embed_channels, s.heads
    m, unpooled = keys
    d = E // heads
    seen = 1 if s.view == "magnitude" else d
    wide, wide_seen = max(d, narrow), max(seen, narrow)
    embedded = unpooled if s.key_pool == "after" else m
    forward = 2 * (n + embedded) * C * max(E, narrow)
    moved = 4 * n * C + 4 * (n + m) * E
    kept = s.itemsize * (n * C + 2 * (n + m) * E)
    if order == "associative":
        middle, middle_backward = (m + n) * E * wide_seen, 2 * (m + n) * E * wide_seen
        kept += s.itemsize * seen * E
    elif order == "quadratic":
        middle = n * m * heads * (wide_seen + wide)
        middle_backward = 2 * middle
        moved += (2 if ATTENTIONS[s.attention].form == "dot_product" else 6) * heads * n * m
        kept += s.itemsize * heads * n * m
    else:
        middle, middle_backward = 2 * n * m * heads * wide, 5 * n * m * heads * wide
        kept += max(4, s.itemsize) * heads * n
    norm_moved, norm_kept = _norm_apart(s, n)
    return _Count(
        forward + middle,
        2 * forward + middle_backward,
        moved + norm_moved,
        2 * moved + norm_moved,
        kept + norm_kept + _kept_by_view(s, n, m, order) + _kept_by_keys(s, keys),
    )


def _rank_one(s: BlockState, n: int, keys: Keys, narrow: int) -> _Count:
    """The magnitude view without softmax: theta, phi, and one vector per head."""
    C, E, heads = s.channels, s.embed_channels, s.heads
    m, _ = keys
    forward = (n + m) * C * (max(E, narrow) + max(heads, narrow)) + 2 * C * E
    plus_mean = s.center == "keys+mean"
    forward += 2 * C * E if plus_mean else 0
    moved = 3 * n * C + 2 * (n + m) * E
    norm_moved, norm_kept = _norm_apart(s, n)
    kept = s.itemsize * (n * C + (n + m) * (E + heads) + 2 * heads * C + E)
    kept += (n + m) * heads * (max(4, s.itemsize) + 1) + (C + E) * s.itemsize * plus_mean
    return _Count(
        forward,
        2 * forward,
        moved + norm_moved,
        2 * moved + norm_moved,
        kept + norm_kept + _kept_by_keys(s, keys),
    )


def _gram(s: BlockState, n: int, keys: Keys, fold: bool, narrow: int) -> _Count:
    """Two products over pixels forward, three backward; the rest is small."""
    C, E = s.channels, s.embed_channels
    m, _ = keys
    ends, middles = C * C * max(E, narrow), C * E * max(E // s.heads, narrow)
    autograd = set(s.biased) - {"out"} or s.center == "keys+mean"
    # Autograd follows the whole product of the keys with themselves.
    entries = C * C if autograd and s.training else gram_entries(C)
    forward = n * C * C + m * entries + 2 * ends + 2 * middles
    moved, moved_backward = 4 * n * C, 4 * n * C + 6 * C * C
    sums = max(4, s.itemsize)
    if autograd:
        return _gram_through_autograd(s, n, keys, fold, forward, moved)
    backward = (2 * n + m) * C * C + 4 * ends + 6 * middles
    lean = s.memory == "lean"
    kept = s.itemsize * n * C + sums * C * C + _kept_by_keys(s, keys)
    if fold:
        means = 0 if s.center else 2 * C * E
        forward += C * C * C + means
        backward += C * C * C + 4 * means
        if lean:
            backward += 2 * ends + C * C * C
        kept += sums * (C if lean else 2 * C * C + E * C + 2 * C)
        moved += 3 * n * C + 16 * C * C
        moved_backward += 3 * n * C + 32 * C * C
        if s.masked:
            backward += n * C
            kept += 0 if lean else sums * n * C
            moved += 2 * n * C
            moved_backward += 3 * n * C
        return _Count(forward, backward, moved, moved_backward, kept)
    backward += 2 * ends if lean else ends
    kept += 0 if lean else sums * C * C
    if s.center:
        kept += sums * C
        moved += 3 * m * C
    norm_moved, norm_kept = _norm_apart(s, n)
    return _Count(
        forward, backward, moved + norm_moved, moved_backward + norm_moved, kept + norm_kept
    )


def _gram_through_autograd(
    s: BlockState, n: int, keys: Keys, fold: bool, forward: int, moved: int
) -> _Count:
    """The gram order where u has a constant: plain autograd, which keeps every small matrix."""
    C, E = s.channels, s.embed_channels
    m, _ = keys
    d = E // s.heads
    theta, plus_mean = "theta" in s.biased, s.center == "keys+mean"
    # The embedded means of the keys, or that of the values, which goes through out.
    means = 0 if s.center == "keys" else 2 * C * E
    forward += means + (C * E + E * d if theta else 0)
    # The centred keys, of pooled ones in the place of the pooled map, and vectors.
    numbers = 2 * C * C + 2 * E * C + E * d + (0 if s.key_pool else m * C)
    numbers += E * (theta + (1 if plus_mean else 2 if not s.center else 0))
    numbers += C if means or fold else 0
    moved += 3 * m * C
    norm_moved, norm_kept = (0, 0) if fold else _norm_apart(s, n)
    if fold:
        forward += C * C * C
        numbers += 2 * C * C + (2 * C if theta or plus_mean else C)
        # Masked, the centred x is multiplied in the place of x.
        numbers -= n * C if s.masked else 0
        moved += 16 * C * C
    pooled = _kept_by_keys(s, keys) if s.key_pool else 0
    kept = s.itemsize * n * C + max(4, s.itemsize) * numbers + norm_kept + pooled
    return _Count(forward, 2 * forward, moved + norm_moved, 2 * moved + norm_moved, kept)


def _norm_apart(s: BlockState, n: int) -> tuple[int, int]:
    """Numbers moved one way by a norm that is not folded and by the residual; bytes it keeps."""
    C = s.channels
    if s.masked:
        # The norm is not torch's: u, then u minus its mean is kept; and the branch is masked.
        return (14 if s.batch_norm else 3) * n * C, s.itemsize * n * C if s.batch_norm else 0
    if not s.batch_norm:
        return 0, 0
    return 6 * n * C, s.itemsize * n * C


def _kept_by_view(s: BlockState, n: int, m: int, order: str) -> int:
    """Bytes that a view keeps beside the embeddings: lengths with their masks, and directions."""
    rows, wide = (n + m) * s.heads, max(4, s.itemsize)
    if s.view == "direction":
        return (n + m) * s.embed_channels * s.itemsize + rows * (2 * wide + 2)
    if s.view == "magnitude":
        padded = (n + m) * s.embed_channels if order == "fused" else rows
        return rows * (wide + 1) + padded * s.itemsize
    return 0


def _kept_by_keys(s: BlockState, keys: Keys) -> int:
    """Bytes that keys keep which are not x itself: other ones, and those of max-pooling."""
    m, unpooled = keys
    others = unpooled * s.channels * s.itemsize if s.other_keys else 0
    if s.key_pool == "before":
        return others + m * s.channels * (s.itemsize + INDEX_BYTES)
    if s.key_pool == "after":
        return others + 2 * s.embed_channels * (unpooled * s.itemsize + m * INDEX_BYTES)
    return others


def bands(channels: int) -> list[tuple[int, int]]:
    """Four bands of the rows of x^T x: it is multiplied from each one's diagonal block on."""
    step = -(-channels // 4)
    return [(start, min(start + step, channels)) for start in range(0, channels, step)]


def gram_entries(channels: int) -> int:
    """How many entries of x^T x are multiplied on a processor."""
    if channels < MIRRORED:
        return channels * channels
    return sum((end - start) * (channels - start) for start, end in bands(channels))
