"""The names that options may take, and the sentences that answer a wrong one."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import isfinite
from operator import index
from typing import Literal, TypeGuard, get_args

from scalednl.attentions import ATTENTIONS, OWN_ORDERS, known_attentions

Attention = str
"""A name of `attentions.ATTENTIONS`, which is open"""
View = Literal["base", "magnitude", "direction"]
Order = Literal["auto", "quadratic", "associative", "gram", "rank_one", "fused"]
Memory = Literal["auto", "lean"]
KeyPool = Literal["before", "after"]
PoolSize = int | tuple[int, ...]
Center = Literal["keys", "keys+mean"]
ReferencePixels = int | Literal["running"]
Bias = bool | tuple[str, ...]

VIEWS: tuple[str, ...] = get_args(View)
ORDERS: tuple[Order, ...] = get_args(Order)[1:]
MEMORIES: tuple[str, ...] = get_args(Memory)
KEY_POOLS: tuple[str, ...] = get_args(KeyPool)
CENTERS: tuple[str, ...] = get_args(Center)
CONVOLUTIONS = ("theta", "phi", "g", "out")
USUAL_POOL = 2
"""By how many pixels keys are pooled unless `key_pool_size` says otherwise"""
SOFTMAX_SCALES = ("embed", "channels", "learned")


def default_init(attention: str) -> str | float:
    """The best column of the paper's Table 2: 0.01 for softmax, He for scaled; "he" for others."""
    return ATTENTIONS[attention].init if attention in ATTENTIONS else "he"


def check_init(init: object, norm: object, norm_init: object) -> None:
    """Raise unless `init`, `norm` and `norm_init` say how a block starts."""
    if init != "he" and not (_is_number(init) and init >= 0):
        raise ValueError(
            f'init={init!r} is unknown: use "he", or a standard deviation such as 0.01'
        )
    if not isinstance(norm, bool):
        raise ValueError(
            f"norm={norm!r} must be True or False: for another norm, pass norm_layer, a function "
            "such as lambda channels: nn.GroupNorm(8, channels)"
        )
    if not _is_number(norm_init):
        raise ValueError(f"norm_init={norm_init!r} must be a number")


def biased(bias: object) -> tuple[str, ...]:
    """The convolutions with a bias: all four for True, none for False, or those that are named."""
    if isinstance(bias, bool):
        return CONVOLUTIONS if bias else ()
    if not isinstance(bias, (tuple, list)) or not bias:
        raise ValueError(
            f"bias={bias!r} must be True, False, or names of convolutions such as "
            "('theta', 'phi', 'g')"
        )
    for name in bias:
        check_name("bias", name, CONVOLUTIONS)
    return tuple(name for name in CONVOLUTIONS if name in bias)


def check_name(option: str, value: object, allowed: Iterable[str]) -> None:
    """Raise unless `value` is one of the `allowed` names of `option`."""
    names = list(allowed)
    if value in names:
        return
    raise ValueError(
        f"{option}={value!r} is unknown: use {_listed(names)}{suggestion(value, names)}"
    )


def suggestion(value: object, names: Iterable[str]) -> str:
    """The end of a sentence that names what is written most like `value`; empty if nothing is."""
    near = get_close_matches(str(value), list(names), n=3, cutoff=0.5)
    return f"; did you mean {_listed(near)}?" if near else ""


def check_positive(option: str, value: object) -> int:
    """`value` as an int; raise unless it is a whole number of at least 1."""
    if not _is_positive(value):
        raise ValueError(f"{option}={value!r} must be a whole number of at least 1")
    return index(value)  # type: ignore[arg-type]


def check_heads(embed_channels: int, heads: int) -> None:
    """Raise unless `heads` divides `embed_channels`."""
    check_positive("heads", heads)
    if embed_channels % heads:
        # A file may name any number; of a large one, the divisors that anybody would use.
        tried = range(1, min(embed_channels, 4096) + 1)
        divisors = [n for n in tried if embed_channels % n == 0]
        raise ValueError(
            f"heads={heads} does not divide embed_channels={embed_channels}: "
            f"use one of {_listed(divisors)}"
        )


def check_attention_options(
    embed_channels: int, heads: int, attention: str, view: str, scale: bool
) -> None:
    """Raise unless these options describe an attention."""
    check_attention(attention)
    check_name("view", view, VIEWS)
    if not isinstance(scale, bool):
        raise ValueError(f"scale={scale!r} must be True or False")
    check_heads(embed_channels, heads)
    if not scale and not ATTENTIONS[attention].has_pixel_factor:
        raise ValueError(
            f"scale=False drops the 1/sqrt(N) of attention='scaled'; attention={attention!r} "
            "has no such factor: leave scale=True"
        )


def check_attention(attention: object) -> None:
    """Raise unless an attention of this name is known."""
    if isinstance(attention, str) and attention in ATTENTIONS:
        return
    known = known_attentions()
    hint = suggestion(attention, known) or (
        "; one of your own must be registered first, on the command line by FILE.py:NAME or "
        "--code FILE.py"
    )
    raise ValueError(f"attention={_shortened(attention)} is unknown: use {_listed(known)}{hint}")


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def check_center(center: object, attention: str) -> None:
    """Raise unless `center` is None or one of `CENTERS`, and the attention sees a difference."""
    if center is None:
        return
    check_name("center", center, CENTERS)
    if ATTENTIONS[attention].form == "softmax":
        raise ValueError(
            f"center={center!r} is for attention without softmax: a softmax does not change when "
            "all keys move by the same vector; use center=None"
        )
    if ATTENTIONS[attention].form == "own":
        raise ValueError(
            f"center={center!r} is for attention that is a product of theta and phi; "
            f"attention={attention!r} is a function of its own: use center=None"
        )


def check_reference_pixels(value: object, attention: str, scale: bool) -> None:
    """Raise unless `value` is None, a whole number or "running", and 1/sqrt(N) is there."""
    if value is None:
        return
    if value != "running":
        if isinstance(value, str):
            raise ValueError(
                f'reference_pixels={value!r} is unknown: use a number of pixels, "running" or None'
            )
        check_positive("reference_pixels", value)
    _check_factor(value, attention, scale)


def check_reference(value: object, attention: str, scale: bool) -> None:
    """The same for functions, which take any positive number, or a tensor instead of "running"."""
    if value is None:
        return
    if isinstance(value, (str, bool, int, float)) and not (_is_number(value) and value > 0):
        raise ValueError(
            f"reference_pixels={value!r} must be a number above 0, a tensor with one, or None"
        )
    _check_factor(value, attention, scale)


def _check_factor(value: object, attention: str, scale: bool) -> None:
    if not ATTENTIONS[attention].has_pixel_factor or not scale:
        raise ValueError(
            f"reference_pixels={value!r} replaces the 1/sqrt(N) of attention='scaled'; "
            f"attention={attention!r} with scale={scale} has no such factor: leave it out"
        )


def check_key_pool(key_pool: object, size: object) -> PoolSize:
    """`size` in ints; raise unless it says how `key_pool`, None or a name, pools the keys."""
    if key_pool is not None:
        check_name("key_pool", key_pool, KEY_POOLS)
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not sizes or not all(map(_is_positive, sizes)):
        raise ValueError(
            f"key_pool_size={size!r} must be a whole number of at least 1, or a tuple of such "
            "numbers, one per axis of the map"
        )
    if key_pool is None and size != USUAL_POOL:
        raise ValueError(
            f"key_pool_size={size!r} has no effect with key_pool=None: use key_pool='before' or "
            "'after', or leave it out"
        )
    return tuple(map(index, sizes)) if isinstance(size, (tuple, list)) else index(sizes[0])


def check_softmax_scale(value: object, attention: str) -> None:
    """Raise unless `value` is a name of `SOFTMAX_SCALES` or a number, and there is a softmax."""
    if not _is_number(value) and value not in SOFTMAX_SCALES:
        raise ValueError(
            f"softmax_scale={value!r} is unknown: use {_listed(SOFTMAX_SCALES)}, or a number"
        )
    if ATTENTIONS[attention].form != "softmax" and value != "embed":
        raise ValueError(
            f"softmax_scale={value!r} is for attention='softmax', not {attention!r}: leave it out"
        )


def check_dropout(value: object) -> None:
    """Raise unless `value` is a probability with which numbers can be dropped."""
    if not _is_number(value) or not 0 <= value < 1:
        raise ValueError(f"dropout={value!r} must be a number from 0 to below 1")


def orders_of(
    attention: str, view: str, *, key_pool: str | None = None, plain: bool = True
) -> dict[Order, str]:
    """Every order with the reason why it does not apply to this attention, or "" where it does.

    - quadratic:   (theta phi^T) g, for every attention
    - associative: theta (phi^T g), without softmax
    - gram:        from x x^T and the weights alone: base view, no softmax
    - rank_one:    one vector per head: magnitude view, no softmax, where A has rank one
    - fused:       torch's kernel for softmax, which never stores A

    An attention of a user's own has "quadratic", its reference, and what was registered with it.

    `plain` says whether the four convolutions are plain 1x1 ones, whose weights may be used without
    calling them.
    """
    reasons = dict.fromkeys(ORDERS, "")
    kind = ATTENTIONS[attention]
    if kind.form == "own":
        product = "A is not a product of theta and phi"
        absent = f"no such order was registered with attention={attention!r}"
        other = {name: "" if name in kind.orders else absent for name in OWN_ORDERS}
        return {**reasons, "gram": product, "rank_one": product, **other}  # type: ignore[dict-item]
    if kind.form == "softmax":
        reason = "softmax needs a complete row of A before it is multiplied with g"
        return {**reasons, "associative": reason, "gram": reason, "rank_one": reason}
    reasons["fused"] = "for attention='softmax' only"
    if not plain:
        reason = "theta, phi, g or out was replaced, patched or hooked, so it must be called"
        reasons["gram"] = reasons["rank_one"] = reason
    if key_pool == "after":
        reason = "key_pool='after' takes a maximum of phi and g, so both must exist"
        reasons["gram"] = reasons["rank_one"] = reason
    if view != "base":
        reasons["gram"] = f"view={view!r} takes a norm at every pixel, so theta and phi must exist"
    if view != "magnitude":
        reasons["rank_one"] = "for view='magnitude' only, where A has rank one"
    return reasons


def fastest_own(attention: str) -> Order:
    """The order that "auto" stands for with an attention of a user's own."""
    found: list[Order] = [name for name in ORDERS if name in ATTENTIONS[attention].orders]
    return found[0] if found else "quadratic"


def check_order(order: Order, reasons: Mapping[Order, str]) -> None:
    """Raise unless `order` is "auto" or one of the orders with no reason against it."""
    check_name("order", order, ("auto", *reasons))
    if order != "auto" and reasons[order]:
        usable = ["auto", *(name for name, reason in reasons.items() if not reason)]
        raise ValueError(f"order={order!r} cannot be used: {reasons[order]}; use {_listed(usable)}")


def _is_positive(value: object) -> bool:
    try:
        return not isinstance(value, bool) and index(value) >= 1  # type: ignore[arg-type]
    except TypeError:
        return False


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def _listed(values: Iterable[object]) -> str:
    words = [repr(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
