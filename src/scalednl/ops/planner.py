"""Which order to multiply in, and why: a pure function of sizes, without a timing run.

A `schedule` lists, for one block, from how many pixels on which order is the cheapest. It is made
once per state of a block, from plain numbers. `choose` only compares the number of pixels with its
entries and never branches on a symbolic one: where the size is open (export, dynamic compilation)
it takes the last entry, the order for large maps.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from scalednl.attentions import ATTENTIONS
from scalednl.ops.costs import CPU, BlockState, Constants, Cost, cost
from scalednl.options import Order, fastest_own

LARGEST = 1 << 24
_used = CPU


def use_constants(move: int = CPU.move, narrow: int = CPU.narrow) -> Constants:
    """Weigh memory against arithmetic as on another device, in this process; CPU by default.

    `python -m benchmarks.planner --device cuda` prints the call for a GPU. `move` is how many
    multiply-adds take as long as moving one number, `narrow` the side below which a product's
    units run partly empty. What was compiled before keeps its orders. Returns the constants that
    were in use before.
    """
    global _used
    for name, value in (("move", move), ("narrow", narrow)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
    before, _used = _used, Constants(move, narrow)
    _schedule.cache_clear()
    _remembered.cache_clear()
    return before


class Choice(NamedTuple):
    """An order, and whether batch norm folds into it in training."""

    order: Order
    fold: bool = False

    def __str__(self) -> str:
        return self.order + (" + norm" if self.fold else "")


Choices = tuple[tuple[int, Choice], ...]
"""(pixels from which it holds, choice), ascending"""


def choose(
    s: BlockState,
    asked: Order | Choice,
    pixels: int,
    keys: int | None = None,
    unpooled: int | None = None,
) -> Choice:
    """The choice for this many pixels; that of the largest maps where the number is not known.

    `asked` is followed as far as it is available: an unavailable order counts as "auto", and a fold
    that is impossible as not folded. `keys` is the number of keys of another map, and `unpooled`
    that of its pixels.
    """
    order, fold = asked if isinstance(asked, Choice) else (asked, None)
    if keys is not None:
        if type(pixels) is int and type(keys) is int and not torch.compiler.is_compiling():
            return _cheapest_for_keys(s, order, fold, pixels, keys, unpooled)
        # A traced size must not decide: the schedule is for as many keys as pixels.
        pixels = (pixels + keys) // 2
    if torch.compiler.is_compiling():
        entries = _constant_schedule(order, fold, *s)
    else:
        entries = schedule(s, order, fold)
    chosen = entries[0][1]
    for start, choice in entries[1:]:
        if statically_known_true(pixels >= start):
            chosen = choice
        elif not statically_known_true(pixels < start):
            return entries[-1][1]
    return chosen


def _constant_schedule(order: Order, fold: bool | None, *state: Any) -> Choices:
    return schedule(BlockState(*state), order, fold)


# What torch.compiler.assume_constant_result does; calling that would load the compiler (100 MB).
_constant_schedule._dynamo_marked_constant = True  # type: ignore[attr-defined]


def schedule(s: BlockState, order: Order = "auto", fold: bool | None = None) -> Choices:
    """The cheapest available choice for every number of pixels."""
    if ATTENTIONS[s.attention].form == "own":
        # Not remembered: orders may be registered later.
        return ((0, _own_choice(s, order)),)
    return _schedule(s, order, fold)


@lru_cache(maxsize=1024)
def _schedule(s: BlockState, order: Order, fold: bool | None) -> Choices:
    choices = _choices(s, order, fold)
    entries = [(0, _cheapest(s, choices, 1))]
    if ATTENTIONS[s.attention].form == "softmax" or len(choices) == 1:
        return tuple(entries)
    low = 1
    while low < LARGEST:
        high = low * 2
        while (best := _cheapest(s, choices, high)) != entries[-1][1]:
            entries.append(_first_change(s, choices, low, high, entries[-1][1]))
            low = entries[-1][0]
            if entries[-1][1] == best:
                break
        low = high
    return tuple(entries)


def _own_choice(s: BlockState, order: Order) -> Choice:
    """The choice for a user's own attention: the order registered as faster, at any cost."""
    available = order != "auto" and not s.orders()[order]
    return Choice(order if available else fastest_own(s.attention))


def _cheapest_for_keys(
    s: BlockState, order: Order, fold: bool | None, pixels: int, keys: int, unpooled: int | None
) -> Choice:
    if ATTENTIONS[s.attention].form == "own":
        return _own_choice(s, order)
    return _remembered(s, order, fold, pixels, keys, unpooled)


@lru_cache(maxsize=1024)
def _remembered(
    s: BlockState, order: Order, fold: bool | None, pixels: int, keys: int, unpooled: int | None
) -> Choice:
    return _cheapest(s, _choices(s, order, fold), pixels, keys, unpooled)


@dataclass(frozen=True)
class Option:
    """One line of a plan."""

    choice: Choice
    cost: Cost | None
    """None where the order cannot be used"""
    reason: str


@dataclass(frozen=True, repr=False)
class Plan:
    """The orders that were compared for one shape, their costs for the batch, and the chosen one.

    >>> print(scalednl.NonLocal2d(64).plan((32, 64, 32, 32)))
    """

    state: BlockState
    batch: int
    pixels: int
    keys: int
    options: tuple[Option, ...]
    choice: Choice

    @property
    def order(self) -> Order:
        """The chosen order."""
        return self.choice.order

    @property
    def fold(self) -> bool:
        """Whether batch norm folds into it in training."""
        return self.choice.fold

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the chosen order, for the batch."""
        return self.batch * self._chosen.multiply_adds

    @property
    def bytes_kept(self) -> int:
        """Bytes that the chosen order keeps for backward, for the batch."""
        return self.batch * self._chosen.bytes_kept

    @property
    def _chosen(self) -> Cost:
        found = next(option.cost for option in self.options if option.choice == self.choice)
        assert found is not None
        return found

    def __str__(self) -> str:
        s = self.state
        mode = "training" if s.training else "evaluation"
        keys = "" if self.keys == self.pixels else f", {self.keys} keys"
        lines = [
            f"{s.attention} attention, {mode}: batch {self.batch}, {s.channels} channels, "
            f"{self.pixels} pixels{keys}, {s.embed_channels} embedded in {s.heads} heads",
            f"  {'order':<20} {'multiply-adds':>14} {'kept':>10}  why",
        ]
        for option in self.options:
            mark = ">" if option.choice == self.choice else " "
            adds, kept = "-", "-"
            if option.cost is not None:
                adds = _short(
                    self.batch * option.cost.multiply_adds, 1000, ("", "k", "M", "G", "T")
                )
                kept = _short(self.batch * option.cost.bytes_kept, 1024, ("B", "KiB", "MiB", "GiB"))
            lines.append(f"{mark} {option.choice!s:<20} {adds:>14} {kept:>10}  {option.reason}")
        both = "forward and backward" if s.training else "forward"
        rest = "work adds memory traffic"
        if ATTENTIONS[s.attention].form == "own":
            rest = f"of products alone, without what the function of {s.attention!r} adds"
        lines.append(f"  multiply-adds and bytes of the batch, {both}; {rest}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def make_plan(
    s: BlockState,
    asked: Order | Choice,
    *,
    batch: int,
    pixels: int,
    keys: int,
    unpooled: int | None = None,
) -> Plan:
    """Compare every order for one shape."""
    reasons = s.orders()
    order = asked.order if isinstance(asked, Choice) else asked
    available = order == "auto" or not reasons[order]
    chosen = choose(s, asked, pixels, keys if s.other_keys else None, unpooled)
    costs = {c: cost(*c, s, pixels, keys, unpooled, _used) for c in _choices(s)}
    options = []
    for choice, found in costs.items():
        reason = _reason(choice, chosen, costs, s, asked if available else "auto")
        if choice == chosen and not available:
            reason += f", order={order!r} being unavailable"
        options.append(Option(choice, found, reason))
    options += [Option(Choice(name), None, reason) for name, reason in reasons.items() if reason]
    return Plan(s, batch, pixels, keys, tuple(options), chosen)


def _choices(s: BlockState, order: Order = "auto", fold: bool | None = None) -> list[Choice]:
    """What was asked for as far as it is available, otherwise everything that is."""
    found = [Choice(name) for name, reason in s.orders().items() if not reason]
    if (
        Choice("gram") in found
        and s.batch_norm
        and s.folds
        and not (s.key_pool or s.other_keys or "out" in s.biased)
    ):
        found.insert(found.index(Choice("gram")) + 1, Choice("gram", True))
    named = [choice for choice in found if choice.order == order]
    return [choice for choice in named if choice.fold == fold] or named or found


def _cheapest(
    s: BlockState,
    choices: list[Choice],
    pixels: int,
    keys: int | None = None,
    unpooled: int | None = None,
) -> Choice:
    keys = max(1, pixels // s.key_ratio()) if keys is None else keys

    def weight(choice: Choice) -> tuple[int, int, int]:
        if ATTENTIONS[s.attention].form == "softmax":
            return (int(choice.order != "fused"), 0, 0)
        found = cost(*choice, s, pixels, keys, unpooled, _used)
        return (_risk(s, choice), found.bytes_kept if s.memory == "lean" else 0, found.work)

    return min(choices, key=weight)


def _risk(s: BlockState, choice: Choice) -> int:
    """How easily a choice overflows in float16: gram forms nothing large where no norm is left.

    Its sums and its matrix are float32, and so is u beside float32 weights, under autocast.
    Embeddings and y, in the other orders, are float16.
    """
    wide = choice.fold or not s.batch_norm or s.itemsize > 2
    if not s.fp16 or (choice.order == "gram" and wide):
        return 0
    return 1 if choice.order == "gram" else 2


def _first_change(
    s: BlockState, choices: list[Choice], low: int, high: int, current: Choice
) -> tuple[int, Choice]:
    """The first pixel count in (low, high] at which `current` is not the cheapest any more."""
    while high - low > 1:
        middle = (low + high) // 2
        if _cheapest(s, choices, middle) == current:
            low = middle
        else:
            high = middle
    return high, _cheapest(s, choices, high)


def _reason(
    choice: Choice,
    chosen: Choice,
    costs: dict[Choice, Cost],
    s: BlockState,
    asked: Order | Choice,
) -> str:
    if choice == chosen:
        if asked != "auto":
            return f"chosen: order={str(asked)!r} was asked for"
        if ATTENTIONS[s.attention].form == "own":
            many = len(costs) > 1
            return "chosen: registered as faster" if many else "chosen: the only order there is"
        if ATTENTIONS[s.attention].form == "softmax":
            return "chosen: never stores the map"
        if any(_risk(s, other) > _risk(s, choice) for other in costs):
            return "chosen: the least likely to overflow in float16"
        return "chosen: keeps the least" if s.memory == "lean" else "chosen: the least work"
    if asked not in ("auto", choice.order):
        return f"order={str(asked)!r} was asked for"
    if ATTENTIONS[s.attention].form == "own":
        return "the reference, or registered beside a faster order"
    if ATTENTIONS[s.attention].form == "softmax":
        return "stores heads x N x N numbers"
    if _risk(s, choice) > _risk(s, chosen):
        return "may overflow in float16"
    if s.memory == "lean":
        return f"keeps {_ratio(costs[choice].bytes_kept, costs[chosen].bytes_kept)}"
    return f"{_ratio(costs[choice].work, costs[chosen].work)} the work"


def _ratio(this: float, other: float) -> str:
    return f"x{this / other:.2f}" if other else "as much"


def _short(value: float, base: int, units: tuple[str, ...]) -> str:
    index = 0
    while value >= base and index < len(units) - 1:
        value, index = value / base, index + 1
    return f"{value:.0f} {units[0]}".rstrip() if index == 0 else f"{value:.1f} {units[index]}"
