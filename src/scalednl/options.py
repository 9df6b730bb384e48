"""The names that options may take, and the sentences that answer a wrong one."""

from collections.abc import Iterable
from difflib import get_close_matches
from math import isfinite
from operator import index
from typing import Literal, get_args

Attention = Literal["scaled", "softmax", "mean"]
View = Literal["base", "magnitude", "direction"]
Order = Literal["auto", "quadratic", "associative", "gram", "fused"]
Memory = Literal["auto", "lean"]
KeyPool = Literal["before", "after"]

ATTENTIONS: tuple[str, ...] = get_args(Attention)
VIEWS: tuple[str, ...] = get_args(View)
MEMORIES: tuple[str, ...] = get_args(Memory)
KEY_POOLS: tuple[str, ...] = get_args(KeyPool)
SOFTMAX_SCALES = ("embed", "channels", "learned")


def default_init(attention: str) -> str | float:
    """The best column of the paper's Table 2: 0.01 for softmax, He for scaled and the others."""
    return 0.01 if attention == "softmax" else "he"


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
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    if not whole or index(value) < 1:  # type: ignore[arg-type]
        raise ValueError(f"{option}={value!r} must be a whole number of at least 1")
    return index(value)  # type: ignore[arg-type]


def check_heads(embed_channels: int, heads: int) -> None:
    """Raise unless `heads` divides `embed_channels`."""
    check_positive("heads", heads)
    if embed_channels % heads:
        divisors = [n for n in range(1, embed_channels + 1) if embed_channels % n == 0]
        raise ValueError(
            f"heads={heads} does not divide embed_channels={embed_channels}: "
            f"use one of {_listed(divisors)}"
        )


def check_attention_options(
    embed_channels: int, heads: int, attention: str, view: str, scale: bool
) -> None:
    """Raise unless these options describe an attention."""
    check_name("attention", attention, ATTENTIONS)
    check_name("view", view, VIEWS)
    check_heads(embed_channels, heads)
    if not scale and attention != "scaled":
        raise ValueError(
            f"scale=False drops the 1/sqrt(N) of attention='scaled'; attention={attention!r} "
            "has no such factor: leave scale=True"
        )


def check_softmax_scale(value: object, attention: str) -> None:
    """Raise unless `value` is a name of `SOFTMAX_SCALES` or a number, and there is a softmax."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
    if not number and value not in SOFTMAX_SCALES:
        raise ValueError(
            f"softmax_scale={value!r} is unknown: use {_listed(SOFTMAX_SCALES)}, or a number"
        )
    if attention != "softmax" and value != "embed":
        raise ValueError(
            f"softmax_scale={value!r} is for attention='softmax', not {attention!r}: leave it out"
        )


def orders_of(attention: str, view: str, *, key_pool: str | None = None) -> dict[str, str]:
    """Every order with the reason why it does not apply to this attention, or "" where it does."""
    orders = dict.fromkeys(("quadratic", "associative", "gram", "fused"), "")
    if attention == "softmax":
        orders["associative"] = "softmax needs the whole row of A before it is multiplied with g"
        orders["gram"] = orders["associative"]
    else:
        orders["fused"] = "for attention='softmax' only"
        if view != "base":
            orders["gram"] = (
                f"view={view!r} takes a norm at every pixel, so theta and phi must exist"
            )
        elif key_pool == "after":
            orders["gram"] = "key_pool='after' takes a maximum of phi and g, so both must exist"
    return orders


def check_order(order: str, available: dict[str, str]) -> None:
    """Raise unless `order` is "auto" or one of the orders with no reason against it."""
    check_name("order", order, ("auto", *available))
    if order != "auto" and available[order]:
        usable = ["auto", *(name for name, reason in available.items() if not reason)]
        raise ValueError(
            f"order={order!r} cannot be used: {available[order]}; use {_listed(usable)}"
        )


def _listed(values: Iterable[object]) -> str:
    words = [repr(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
