"""A block that knows its sizes, refuses what does not fit them, and picks its order from them."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn.modules.conv import _ConvNd

from scalednl.blocks.norm import CONVOLUTIONS, folds_in_evaluation, is_stock
from scalednl.ops.costs import Setting
from scalednl.ops.options import (
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
from scalednl.ops.planner import Choice, Plan, Schedule, choose, make_plan, schedule

AXES = ("time", "height", "width")


class PlannedBlock(nn.Module):
    """The sizes and options of a non-local block, and the order that follows from them.

    The schedules are made when an option is set, so that `forward` only looks one up and compares:
    cheap, and safe to trace.
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
        self._check_shape(tuple(shape))
        space = tuple(shape[2:])
        batch_norm = self._sees_batch() or (bool(training) and self.norm is not None)
        return make_plan(
            self._setting(self.training if training is None else training, batch_norm),
            batch=shape[0],
            pixels=pixel_count(space),
            keys=pixel_count(space if self.key_pool is None else self._pooled(space)),
            order=self._order,
            unavailable=self._unavailable(self._is_stock()),
        )

    def _plan_for(self, order: Order, memory: Memory) -> None:
        """Set order and memory, with a schedule for each state `_choose` may find the block in."""
        check_name("memory", memory, MEMORIES)
        check_order(order, self._unavailable(stock=True))
        self._order, self._memory = order, memory
        self._schedules: dict[tuple[bool, bool, bool], Schedule] = {}
        for stock in (False, True):
            missing = tuple(name for name, reason in self._unavailable(stock).items() if reason)
            for training in (False, True):
                for batch_norm in (False, True):
                    setting = self._setting(training, batch_norm)
                    made = schedule(setting, order, missing)
                    self._schedules[training, batch_norm, stock] = made

    def _choose(self, pixels: int) -> Choice:
        return choose(self._schedules[self.training, self._sees_batch(), self._is_stock()], pixels)

    def _sees_batch(self) -> bool:
        """Whether there is a norm that must see its batch now."""
        return self.norm is not None and not folds_in_evaluation(self.norm)

    def _is_stock(self) -> bool:
        """Whether the convolutions' weights may be used without calling the modules."""
        return all(is_stock(m, CONVOLUTIONS) for m in (self.theta, self.phi, self.g, self.out))

    def _unavailable(self, stock: bool) -> dict[str, str]:
        reasons = orders_of(self.attention, self.view, key_pool=self.key_pool)
        if not stock:
            reasons["gram"] = reasons["gram"] or (
                "theta, phi, g or out was replaced or has hooks, so it must be called"
            )
        return reasons

    def _setting(self, training: bool, batch_norm: bool) -> Setting:
        return Setting(
            self.channels,
            self.embed_channels,
            self.heads,
            self.attention,
            self.view,
            self.key_pool,
            key_ratio=pixel_count(self.pool_kernel) if self.key_pool else 1,
            bias=self.theta.bias is not None,
            batch_norm=batch_norm,
            training=training,
            memory=self._memory,
            itemsize=self.theta.weight.element_size(),
        )

    def _pooled(self, space: Sequence[int]) -> tuple[int, ...]:
        if any(size < k for size, k in zip(space, self.pool_kernel, strict=True)):
            raise ValueError(
                f"key_pool={self.key_pool!r} pools by {self.pool_kernel}, which a map of "
                f"{tuple(space)} is too small for: use key_pool=None"
            )
        return tuple(size // k for size, k in zip(space, self.pool_kernel, strict=True))

    def _check(self, x: Tensor) -> None:
        self._check_shape(tuple(x.shape))
        if not x.is_floating_point():
            raise ValueError(
                f"{type(self).__name__} takes floating-point maps, but got {x.dtype}: "
                "convert with x.float()"
            )
        dtype = self.theta.weight.dtype
        if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
            raise ValueError(
                f"x is {x.dtype} but the block's weights are {dtype}: call block.to(x.dtype), "
                "or run under torch.autocast"
            )

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        name = type(self).__name__
        if len(shape) != self.dims + 2:
            axes = ", ".join(("batch", "channels", *AXES[-self.dims :]))
            raise ValueError(f"{name} takes ({axes}), but got {len(shape)} axes: shape {shape}")
        if shape[1] != self.channels:
            raise ValueError(
                f"{name}(channels={self.channels}) got {shape[1]} channels: shape {shape}"
            )
        if any(statically_known_true(size < 1) for size in shape[2:]):
            raise ValueError(f"{name} needs at least one pixel, but got shape {shape}")


def pixel_count(space: Sequence[int]) -> int:
    """The product of spatial sizes; they may be symbolic."""
    product = 1
    for size in space:
        product = product * size
    return product
