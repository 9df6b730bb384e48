"""A block that knows its sizes, refuses what does not fit them, and picks its order from them."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn.modules.conv import _ConvNd

from scalednl.blocks.norm import folds_in_evaluation, folds_in_training
from scalednl.blocks.plain import is_pointwise
from scalednl.ops.costs import Setting
from scalednl.ops.planner import Choice, Plan, Schedule, choose, make_plan, schedule
from scalednl.ops.precision import HALVES, autocasts
from scalednl.options import (
    MEMORIES,
    Attention,
    KeyPool,
    Memory,
    Order,
    View,
    check_name,
    check_order,
    orders_of,
)

State = tuple[bool, bool, bool, bool, bool]
AXES = {1: ("length",), 2: ("height", "width"), 3: ("time", "height", "width")}
REPLACEABLE = ("theta", "phi", "g", "out", "norm")
FIXED = ("channels", "embed_channels", "heads", "attention", "view", "key_pool", "scale")


class PlannedBlock(nn.Module):
    """The sizes and options of a non-local block, and the order that follows from them.

    Schedules are made beforehand, so that `forward` only looks one up and compares: cheap, and
    safe to trace. What they rest on cannot be reassigned.
    """

    dims: ClassVar[int]
    pool_kernel: ClassVar[tuple[int, ...]]
    channels: int
    embed_channels: int
    heads: int
    attention: Attention
    view: View
    key_pool: KeyPool | None
    theta: _ConvNd
    phi: _ConvNd
    g: _ConvNd
    out: _ConvNd
    norm: nn.Module | None
    _order: Order
    _memory: Memory
    _forced: Choice | None = None
    """A choice that no plan can override: for measuring and testing each one"""

    @property
    def order(self) -> Order:
        """How the product is bracketed; may be set at any time."""
        return self._order

    @order.setter
    def order(self, order: Order) -> None:
        self._plan_for(order, self._memory)

    @property
    def memory(self) -> Memory:
        """Whether backward trades time for bytes; may be set at any time."""
        return self._memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self._plan_for(self._order, memory)

    def plan(self, shape: Sequence[int], training: bool | None = None) -> Plan:
        """What each order would cost on an input of this shape, and which one is chosen.

        Printed, it is a small table. `training` None is what the block is set to now.
        """
        shape = tuple(shape)
        if not all(isinstance(size, int) and size > 0 for size in shape):
            raise ValueError(f"plan takes the shape of an input, such as x.shape, but got {shape}")
        self._check_shape(shape)
        same_mode = training is None or training == self.training
        training = self.training if training is None else training
        state = self._state(training, None if same_mode else training)
        keys = shape[2:] if self.key_pool is None else self._pooled(shape[2:])
        return make_plan(
            self._setting(*state),
            batch=shape[0],
            pixels=pixel_count(shape[2:]),
            keys=pixel_count(keys),
            order=self._order,
            unavailable=self._unavailable(state[-1]),
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and name in self.__dict__ and value != self.__dict__[name]:
            raise AttributeError(
                f"{name} is fixed when the block is made: make a {type(self).__name__} with "
                f"{name}={value!r} and load this one's state_dict into it"
            )
        super().__setattr__(name, value)
        if name in REPLACEABLE and "_order" in self.__dict__:
            self._plan_for(self._order, self._memory)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._plan_for(self._order, self._memory)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "PlannedBlock":
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._plan_for(self._order, self._memory)
        return self

    def _plan_for(self, order: Order, memory: Memory) -> None:
        """Set order and memory, and make the schedules of the states to come.

        Of training and evaluation, a frozen norm, hooks on the convolutions: torch.compile cannot
        trace the making of a schedule.
        """
        check_name("memory", memory, MEMORIES)
        check_order(order, self._unavailable(stock=True))
        self._order, self._memory = order, memory
        self._schedules: dict[State, Schedule] = {}
        for training, norm_training, stock in product((False, True), repeat=3):
            self._schedule((*self._state(training, norm_training)[:-1], stock))

    def _choose(self, pixels: int) -> Choice:
        if self._forced is not None:
            return self._forced
        return choose(self._schedule(self._state(self.training)), pixels)

    def _schedule(self, state: State) -> Schedule:
        if state not in self._schedules:
            reasons = self._unavailable(state[-1])
            missing = tuple(name for name, reason in reasons.items() if reason)
            self._schedules[state] = schedule(self._setting(*state), self._order, missing)
        return self._schedules[state]

    def _state(self, training: bool, norm_training: bool | None = None) -> State:
        """What the order depends on: mode, the norm's mode, whether it folds, biases, stock convs.

        `norm_training` None is the mode the norm is in now.
        """
        norm, convs = self.norm, (self.theta, self.phi, self.g, self.out)
        sees_batch = norm is not None and not folds_in_evaluation(norm, norm_training)
        folds = norm is not None and folds_in_training(norm)
        biased = any(getattr(conv, "bias", None) is not None for conv in convs)
        widths = (self.channels, self.embed_channels)
        stock = all(is_pointwise(conv, *widths) for conv in convs[:3])
        stock = stock and is_pointwise(self.out, *reversed(widths))
        return training, sees_batch, folds, biased, stock

    def _unavailable(self, stock: bool) -> dict[str, str]:
        reasons = orders_of(self.attention, self.view, key_pool=self.key_pool)
        if not stock:
            reasons["gram"] = reasons["gram"] or (
                "theta, phi, g or out was replaced, patched or hooked, so it must be called"
            )
        return reasons

    def _setting(
        self, training: bool, sees_batch: bool, folds: bool, biased: bool, stock: bool
    ) -> Setting:
        return Setting(
            self.channels,
            self.embed_channels,
            self.heads,
            self.attention,
            self.view,
            self.key_pool,
            key_ratio=pixel_count(self.pool_kernel) if self.key_pool else 1,
            bias=biased,
            batch_norm=sees_batch,
            folds=folds,
            stock=stock,
            training=training,
            memory=self._memory,
            itemsize=next(self.parameters()).element_size(),
        )

    def _pooled(self, space: Sequence[int]) -> tuple[int, ...]:
        if any(size < k for size, k in zip(space, self.pool_kernel, strict=True)):
            raise ValueError(
                f"key_pool={self.key_pool!r} pools by {self.pool_kernel}, which a map of "
                f"{tuple(space)} is too small for: use key_pool=None"
            )
        return tuple(size // k for size, k in zip(space, self.pool_kernel, strict=True))

    def _check(self, x: Tensor) -> None:
        name = type(self).__name__
        if not isinstance(x, Tensor):
            raise ValueError(f"{name} takes a torch tensor, but got a {type(x).__name__}")
        self._check_shape(tuple(x.shape))
        if not x.is_floating_point():
            raise ValueError(f"{name} takes floating-point maps, but got {x.dtype}")
        dtype = next(self.parameters()).dtype
        if x.dtype == dtype:
            return
        castable = all(d in (torch.float32, *HALVES) for d in (x.dtype, dtype))
        if not (castable and autocasts(x)):
            hint = ", or run under torch.autocast" if castable else ""
            raise ValueError(
                f"x is {x.dtype} but the block's weights are {dtype}: call block.to(x.dtype){hint}"
            )

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        name = type(self).__name__
        axes = ", ".join(("batch", "channels", *AXES[self.dims]))
        if len(shape) != self.dims + 2:
            raise ValueError(f"{name} takes ({axes}), but got {len(shape)} axes: shape {shape}")
        if shape[1] != self.channels:
            hint = f"; it takes ({axes})" if shape[-1] == self.channels else ""
            raise ValueError(
                f"{name}(channels={self.channels}) got {shape[1]} channels: shape {shape}{hint}"
            )
        if any(statically_known_true(size < 1) for size in shape[2:]):
            raise ValueError(f"{name} needs at least one pixel, but got shape {shape}")


def pixel_count(space: Sequence[int]) -> int:
    """The product of spatial sizes; they may be symbolic."""
    product_of_sizes = 1
    for size in space:
        product_of_sizes = product_of_sizes * size
    return product_of_sizes
