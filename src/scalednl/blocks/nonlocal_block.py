"""The non-local block: one module for every attention, view and order, in 1 to 3 dimensions."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from scalednl.blocks import folding
from scalednl.blocks.checks import check_assignment, check_input, check_shape, warn_of_dead_block
from scalednl.blocks.forward import POOL_KERNELS, Parts, block_state, embed, forward, key_space
from scalednl.blocks.init import draw, made_norm, reset_as_made, reset_log, reset_norm, start
from scalednl.blocks.tracing import fx_node, refuse_torchscript
from scalednl.config import NonLocalConfig
from scalednl.ops.attention import attention_map
from scalednl.ops.costs import BlockState
from scalednl.ops.layout import Maps, pixel_count
from scalednl.ops.moments import Moments
from scalednl.ops.planner import Choice, Plan, choose, make_plan
from scalednl.options import (
    Attention,
    Bias,
    KeyPool,
    Memory,
    Order,
    View,
    biased,
    check_positive,
    default_init,
)


class NonLocalBlock(nn.Module):
    """z = x + BN(out(y)),  y_i = sum_j A_ij g(x_j): every pixel attends to every other one.

    With theta, phi, g and out bias-free 1x1 convolutions, d = embed_channels / heads the channels
    of one head and N the number of pixels,

    - attention="scaled":  A_ij = theta(x_i) . phi(x_j) / sqrt(N d), the paper's form: linear in N
    - attention="softmax": A_i  = softmax_j(t theta(x_i) . phi(x_j)), t = `softmax_scale`
    - attention="mean":    A_ij = theta(x_i) . phi(x_j) / N, the dot-product form of the original

    and A has one map per head. `order` is how the product is computed; it changes the cost and
    never the result. The weights have the same names and shapes in every variant, so a state_dict
    can be loaded into any of them. The paper prints y; out, norm and the sum with x are those of
    the authors' release.

    Args:
        channels: C, the channels of x.
        attention: "scaled", "softmax" or "mean".
        view: what A sees of theta and phi: "base", only their "magnitude", or only their
            "direction" (of a zero vector: 0).
        heads: into how many groups the embedding channels are split.
        embed_channels: E in total; None is C. The paper's Figure 2 reduces it.
        init: "he", or a standard deviation; None is "he", for softmax 0.01. 0.0 is a dead block.
        order: "auto" picks the cheapest from the shape; otherwise "quadratic", "associative",
            "gram" (base view) or "rank_one" (magnitude view), for softmax "fused" or "quadratic";
            a `Choice` also fixes whether batch norm folds. `plan` explains what is chosen. May be
            set later; an order that a replaced or hooked module rules out counts as "auto".
        bias: give all four convolutions biases, or those that are named, such as
            ("theta", "phi", "g"); the authors' release has none.
        norm: batch norm after out.
        norm_layer: a function of the channels that makes another norm, such as nn.SyncBatchNorm or
            lambda channels: nn.GroupNorm(8, channels).
        norm_init: its weight at the start. 0, as in the authors' release, makes a new block the
            identity, which protects a pretrained network and slows a fresh one: there use 1.
        scale: False drops 1/sqrt(N) from "scaled", to reproduce the divergence.
        softmax_scale: t: "embed" 1/sqrt(d), "channels" 1/sqrt(C), "learned" (one per head,
            starting at 1/sqrt(d)) or a number. Unit vectors keep logits within t, so softmax over
            directions is tested fairly only with a temperature.
        key_pool: max-pool the keys by 2, "before" or "after" phi and g; the release does not.
        memory: "lean" keeps few bytes for backward and recomputes the rest. May be set later.
        device: where the weights are made, as in torch.nn; from "meta", `to_empty` and then
            `reset_parameters` start the block.
        dtype: that of the weights.

    Where the weights alone decide, theta, phi, g, out and norm are not called. Hooks on them are
    respected, by calling them; hooks on all modules at once (register_module_forward_hook) are not,
    because profilers set those and must not change what they measure.
    """

    dims: ClassVar[int]
    pool_kernel: ClassVar[tuple[int, ...]]
    order: Order | Choice
    memory: Memory

    def __init__(
        self,
        channels: int,
        *,
        attention: Attention = "scaled",
        view: View = "base",
        heads: int = 4,
        embed_channels: int | None = None,
        init: str | float | None = None,
        order: Order | Choice = "auto",
        bias: Bias = False,
        norm: bool = True,
        norm_layer: Callable[[int], nn.Module] | None = None,
        norm_init: float = 0.0,
        scale: bool = True,
        softmax_scale: str | float = "embed",
        key_pool: KeyPool | None = None,
        memory: Memory = "auto",
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        channels = check_positive("channels", channels)
        width = channels if embed_channels is None else embed_channels
        width = check_positive("embed_channels", width)
        init = default_init(attention) if init is None else init
        # Made only to be checked; order and memory are checked whenever they are set.
        NonLocalConfig(
            *(attention, view, heads, width, init, "auto"),
            *(bias, norm, norm_init, scale, softmax_scale, key_pool),
        )
        self.channels, self.embed_channels, self.heads = channels, width, heads
        self.attention, self.view, self.scale = attention, view, scale
        self.softmax_scale, self.key_pool = softmax_scale, key_pool
        self.init, self.norm_init = init, norm_init
        self.order, self.memory = order, memory

        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        convolution, batch_norm = folding.MODULES[self.dims]
        names = biased(bias)
        self.theta: _ConvNd = convolution(channels, width, 1, bias="theta" in names, **factory)
        self.phi: _ConvNd = convolution(channels, width, 1, bias="phi" in names, **factory)
        self.g: _ConvNd = convolution(channels, width, 1, bias="g" in names, **factory)
        self.out: _ConvNd = convolution(width, channels, 1, bias="out" in names, **factory)
        self.norm: nn.Module | None = batch_norm(channels, **factory) if norm else None
        if norm_layer is not None:
            self.norm = made_norm(norm_layer, channels, norm, norm_init).to(**factory)
        self.log_softmax_scale: nn.Parameter | None = None
        if softmax_scale == "learned":
            self.log_softmax_scale = nn.Parameter(torch.empty(heads, **factory))
        warn_of_dead_block(init)
        self._start()

    def reset_parameters(self) -> None:
        """Start anew: after torch.manual_seed, with the weights of a new block after that seed.

        Also right if the modules inside are reset before or after, then with other draws.
        """
        for module in self.children():
            reset_as_made(module)
        self._start()

    def _start(self) -> None:
        for conv in (self.theta, self.phi, self.g, self.out):
            if isinstance(conv, _ConvNd):
                start(conv, partial(draw, init=self.init))
        if self.norm is not None:
            start(self.norm, partial(reset_norm, gamma=self.norm_init))
        if self.log_softmax_scale is not None:
            reset_log(self.log_softmax_scale, (self.embed_channels // self.heads) ** -0.5)

    def forward(self, x: Maps) -> Maps:
        """z, of the shape and memory layout of x."""
        if (node := fx_node(self, x)) is not None:
            return node
        self._check(x)
        return forward(
            x,
            self._parts,
            self.choice(x.shape),
            key_pool=self.key_pool,
            memory=self.memory,
            **self.attention_options(),
        )

    def embed(self, x: Maps) -> tuple[Tensor, Tensor, Tensor]:
        """theta, phi and g of x as maps; phi and g with pooled keys where `key_pool` is set."""
        self._check(x)
        return embed(x, self._parts, self.key_pool)

    def attention_options(self) -> dict[str, Any]:
        """The keyword arguments with which `scalednl.functional` computes this block's attention.

        A learned temperature is the tensor that it is now, one number per head.
        """
        temperature: float | Tensor | None = None
        if self.log_softmax_scale is not None:
            temperature = self.log_softmax_scale.exp()
        elif self.softmax_scale == "channels":
            temperature = self.channels**-0.5
        elif isinstance(self.softmax_scale, (int, float)):
            temperature = float(self.softmax_scale)
        return {
            "heads": self.heads,
            "attention": self.attention,
            "view": self.view,
            "scale": self.scale,
            "softmax_scale": temperature,
        }

    def attention_map(self, x: Maps) -> Float[Tensor, "batch heads pixels keys"]:
        """A of every head with every factor in it: y = A g, whatever the order.

        Rows are queries and columns keys, both in row-major order of the image.
        """
        theta, phi, _ = self.embed(x)
        return attention_map(theta, phi, **self.attention_options())

    @property
    def dtype(self) -> torch.dtype | None:
        """That of the weights; None where modules without weights took the block's places."""
        # FSDP and replicas of nn.DataParallel leave a block with weights but without parameters.
        if (weight := self._parts.weight()) is not None:
            return weight.dtype
        return next((parameter.dtype for parameter in self.parameters()), None)

    def state(self, training: bool | None = None) -> BlockState:
        """What the block's cost and order depend on, as it is now.

        `training` None is the mode it is in; of another mode, the norm is assumed to be in it too.
        """
        return block_state(
            self._parts,
            (self.channels, self.embed_channels),
            *(self.heads, self.attention, self.view, self.key_pool),
            dims=self.dims,
            training=self.training if training is None else training,
            norm_training=None if training in (None, self.training) else training,
            memory=self.memory,
        )

    def choice(self, shape: Sequence[int]) -> Choice:
        """The order that an input of this shape is computed in now, and whether the norm folds."""
        return choose(self.state(), self.order, pixel_count(shape[2:]))

    def plan(self, shape: Sequence[int], training: bool | None = None) -> Plan:
        """What each order would cost on an input of this shape, and which one is chosen.

        Printed, it is a small table. `training` None is the mode that the block is in now.
        """
        shape = tuple(shape)
        if not all(isinstance(size, int) and size > 0 for size in shape):
            raise ValueError(f"plan takes the shape of an input, such as x.shape, but got {shape}")
        check_shape(type(self).__name__, shape, self.channels, self.dims)
        return make_plan(
            self.state(training),
            self.order,
            batch=shape[0],
            pixels=pixel_count(shape[2:]),
            keys=pixel_count(key_space(shape[2:], self.key_pool)),
        )

    def apply_moments(self, x: Maps, moments: Moments, *, update_norm: bool = True) -> Maps:
        """z of a tile that attends to every pixel `moments` has seen: as if cut out of the result.

        In training mode batch norm uses the statistics of all those pixels too. They enter its
        running statistics once per call, unless `update_norm` is False: leave it True for one tile.
        """
        self._check(x)
        norm = self.norm
        reason = self.state().orders()["gram"]
        if self.key_pool is not None:
            reason = "key_pool would have to pool across the borders of tiles"
        if reason := reason or folding.reason_against_moments(norm, moments.reduced):
            raise ValueError(f"apply_moments cannot be used: {reason}")
        assert norm is None or isinstance(norm, _BatchNorm)
        keys = moments.key_moments()
        if keys.scatter.shape[:2] != (x.shape[1], x.shape[0]):
            raise ValueError(f"x of shape {tuple(x.shape)} does not fit {moments}")
        w = self._parts.projections(self.attention_options(), keys.pixels)
        return folding.add_moments(x, keys, w, self.out.bias, norm, update_norm=update_norm)

    def extra_repr(self) -> str:
        """The options that differ from a plain scaled block, after those that always matter."""
        words = [f"{self.channels}, attention={self.attention!r}, heads={self.heads}"]
        words.append(f"order={str(self.order)!r}")
        usual = {"view": "base", "key_pool": None, "scale": True, "softmax_scale": "embed"}
        for name, value in {**usual, "embed_channels": self.channels, "memory": "auto"}.items():
            if getattr(self, name) != value:
                words.append(f"{name}={getattr(self, name)!r}")
        return ", ".join(words)

    def __setattr__(self, name: str, value: Any) -> None:
        check_assignment(self, name, value)
        super().__setattr__(name, value)

    def _check(self, x: Tensor) -> None:
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            refuse_torchscript(self)
        check_input(type(self).__name__, x, self.channels, self.dims, self.dtype)

    def __prepare_scriptable__(self) -> NoReturn:
        refuse_torchscript(self)

    @property
    def _parts(self) -> Parts:
        return Parts(self.theta, self.phi, self.g, self.out, self.norm)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # A learned temperature is the one weight that not every variant has: a block without it
        # drops the one it is given, a block with it keeps its own where none is given.
        key = f"{prefix}log_softmax_scale"
        own = self.log_softmax_scale
        if own is None and state_dict.pop(key, None) is not None and self.attention == "softmax":
            warnings.warn(
                f"{key} is dropped: this block has softmax_scale={self.softmax_scale!r}, so it "
                'computes another function than the one saved; make it with "learned"',
                stacklevel=2,
            )
        super()._load_from_state_dict(state_dict, prefix, *args)
        _metadata, _strict, missing_keys, *_ = args
        if own is not None and key in missing_keys and not own.is_meta:
            missing_keys.remove(key)

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...  # noqa: D102


class NonLocal1d(NonLocalBlock):
    """A non-local block over (batch, channels, length)."""

    dims = 1
    pool_kernel = POOL_KERNELS[1]


class NonLocal2d(NonLocalBlock):
    """A non-local block over (batch, channels, height, width)."""

    dims = 2
    pool_kernel = POOL_KERNELS[2]


class NonLocal3d(NonLocalBlock):
    """A non-local block over (batch, channels, time, height, width); keys pool in space only."""

    dims = 3
    pool_kernel = POOL_KERNELS[3]


for _block in (NonLocal1d, NonLocal2d, NonLocal3d):
    _block.__doc__ = f"{_block.__doc__}\n\n    {NonLocalBlock.__doc__}"
