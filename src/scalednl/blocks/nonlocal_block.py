"""The non-local block: one module for every attention, view and order, in 1 to 3 dimensions."""

import math
import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from scalednl.blocks.folding import (
    add_branch,
    add_gram,
    add_moments,
    add_projected,
    evaluation_projection,
)
from scalednl.blocks.init import check_init, initialise
from scalednl.blocks.norm import NORMS, folds_in_evaluation
from scalednl.blocks.plain import is_stock
from scalednl.blocks.planning import PlannedBlock, pixel_count
from scalednl.ops.attention import attention_map, attention_scale, nonlocal_attention
from scalednl.ops.gram.mixing import Projections
from scalednl.ops.layout import Maps, pixel_rows, rows_to_maps
from scalednl.ops.magnitude import magnitude_branch
from scalednl.ops.moments import Moments
from scalednl.options import (
    KEY_POOLS,
    Attention,
    KeyPool,
    Memory,
    Order,
    View,
    check_attention_options,
    check_name,
    check_positive,
    check_softmax_scale,
    default_init,
)

_MAX_POOL = (F.max_pool1d, F.max_pool2d, F.max_pool3d)


class _NonLocal(PlannedBlock):
    """z = x + BN(out(y)),  y_i = sum_j A_ij g(x_j): every pixel looks at every other one.

    With theta, phi, g and out bias-free 1x1 convolutions, d = embed_channels / heads the channels
    of one head and N the number of pixels,

    - attention="scaled":  A_ij = theta(x_i) . phi(x_j) / sqrt(N d), the paper's form: linear in N
    - attention="softmax": A_i  = softmax_j(t theta(x_i) . phi(x_j)), t = `softmax_scale`
    - attention="mean":    A_ij = theta(x_i) . phi(x_j) / N, the dot-product form of the original

    and A has one map a head. `order` says how the product is bracketed; it changes the cost and
    never the result. The weights have the same names and shapes in every variant, so a state_dict
    moves between all of them.

    Args:
        channels: C, the channels of x.
        attention: "scaled", "softmax" or "mean".
        view: what A sees of theta and phi: "base", only their "magnitude", or only their
            "direction" (of a zero vector: 0).
        heads: into how many groups the embedding channels are split.
        embed_channels: E in total; None is C. The paper's Figure 2 reduces it.
        init: "he", or a standard deviation; None is "he", for softmax 0.01. 0.0 is a dead block.
        order: "auto" picks the cheapest from the shape; else "quadratic", "associative" or "gram",
            for softmax "fused" or "quadratic". `plan` explains the choice.
        bias: give the four convolutions biases; the authors' release has none.
        norm: batch norm after out.
        norm_init: its weight at the start. 0, as in the authors' release, makes a new block the
            identity, which protects a pretrained network and slows a fresh one: there use 1.
        scale: False drops 1/sqrt(N) from "scaled", to reproduce the divergence.
        softmax_scale: t: "embed" 1/sqrt(d), "channels" 1/sqrt(C), "learned" (one a head, starting
            at 1/sqrt(d)) or a number. Unit vectors keep logits within t, so direction-only softmax
            is tested fairly only with a temperature.
        key_pool: max-pool the keys by 2, "before" phi and g or "after" them, as other
            implementations do.
        memory: "lean" keeps as few bytes for backward as it can and recomputes the rest.
    """

    _conv: ClassVar[type[nn.Conv1d | nn.Conv2d | nn.Conv3d]]
    _norm: ClassVar[type[_BatchNorm]]

    def __init__(
        self,
        channels: int,
        attention: Attention = "scaled",
        view: View = "base",
        heads: int = 4,
        embed_channels: int | None = None,
        init: str | float | None = None,
        order: Order = "auto",
        bias: bool = False,
        norm: bool = True,
        norm_init: float = 0.0,
        scale: bool = True,
        softmax_scale: str | float = "embed",
        key_pool: KeyPool | None = None,
        memory: Memory = "auto",
    ) -> None:
        super().__init__()
        channels = check_positive("channels", channels)
        embed = channels if embed_channels is None else embed_channels
        embed = check_positive("embed_channels", embed)
        check_attention_options(embed, heads, attention, view, scale)
        if key_pool is not None:
            check_name("key_pool", key_pool, KEY_POOLS)
        check_softmax_scale(softmax_scale, attention)
        if not isinstance(norm, bool):
            raise ValueError(
                f"norm={norm!r} must be True or False: for another norm, make the block with "
                "norm=False and set block.norm"
            )
        if not (isinstance(norm_init, (int, float)) and math.isfinite(norm_init)):
            raise ValueError(f"norm_init={norm_init!r} must be a number")
        init = default_init(attention) if init is None else init
        check_init(init)
        self.channels, self.embed_channels, self.heads = channels, embed, heads
        self.attention, self.view, self.scale = attention, view, scale
        self.softmax_scale, self.key_pool, self.init = softmax_scale, key_pool, init

        self.theta = self._conv(channels, embed, 1, bias=bias)
        self.phi = self._conv(channels, embed, 1, bias=bias)
        self.g = self._conv(channels, embed, 1, bias=bias)
        self.out = self._conv(embed, channels, 1, bias=bias)
        self.norm: nn.Module | None = self._norm(channels) if norm else None
        learned = attention == "softmax" and softmax_scale == "learned"
        start = torch.full((heads,), (embed // heads) ** -0.5).log()
        self.log_softmax_scale = nn.Parameter(start) if learned else None

        initialise((self.theta, self.phi, self.g, self.out), init)
        if isinstance(self.norm, _BatchNorm):
            nn.init.constant_(self.norm.weight, norm_init)
        self._plan_for(order, memory)

    def forward(self, x: Maps) -> Maps:
        """z, of the shape and memory layout of x."""
        self._check(x)
        choice = self._choose(pixel_count(x.shape[2:]))
        if choice.order == "gram":
            return self._gram(x, choice.fold)
        if choice.order == "associative" and self._is_rank_one():
            return self._rank_one(x)
        theta, phi, g = self._embed(x)
        y = nonlocal_attention(theta, phi, g, order=choice.order, **self._attention_options())
        return add_projected(x, y, self.out, self.norm)

    def attention_map(self, x: Maps) -> Float[Tensor, "batch heads pixels keys"]:
        """A of every head with every factor in it: y = A g, whatever the order.

        Rows are queries and columns keys, both in row-major order of the image.
        """
        self._check(x)
        theta, phi, _ = self._embed(x)
        return attention_map(theta, phi, **self._attention_options())

    def apply_moments(self, x: Maps, moments: Moments, *, update_norm: bool = True) -> Maps:
        """z of a tile that attends to every pixel `moments` has seen: as if cut out of the whole.

        In training mode batch norm uses the statistics of all those pixels too. They enter its
        running statistics once a call, unless `update_norm` is False: leave it True for one tile.
        """
        self._check(x)
        norm = self.norm
        reason = self._unavailable(self._state(self.training)[-1])["gram"]
        if self.key_pool is not None:
            reason = "key_pool would have to pool across the borders of tiles"
        if norm is not None and not is_stock(norm, (*NORMS, nn.SyncBatchNorm)):
            reason = f"it needs plain batch norm or none, not {norm}"
        if isinstance(norm, nn.SyncBatchNorm) and norm.training and not moments.reduced:
            reason = "SyncBatchNorm in training needs the moments of all ranks: all_reduce() them"
        if reason:
            raise ValueError(f"apply_moments cannot be used: {reason}")
        assert norm is None or isinstance(norm, _BatchNorm)
        keys = moments.key_moments()
        if keys.scatter.shape[:2] != (x.shape[1], x.shape[0]):
            raise ValueError(f"x of shape {tuple(x.shape)} does not fit {moments}")
        return add_moments(
            x,
            keys,
            self._projections(keys.pixels),
            self.out.bias,
            norm,
            update_norm=update_norm,
        )

    def extra_repr(self) -> str:
        """The options that differ from a plain scaled block, after those that always matter."""
        words = [f"{self.channels}", f"attention={self.attention!r}", f"heads={self.heads}"]
        words += [f"order={self._order!r}"]
        usual = {"view": "base", "key_pool": None, "scale": True, "softmax_scale": "embed"}
        for name, value in {**usual, "embed_channels": self.channels, "memory": "auto"}.items():
            if getattr(self, name) != value:
                words.append(f"{name}={getattr(self, name)!r}")
        return ", ".join(words)

    def _gram(self, x: Maps, fold: bool) -> Maps:
        keys = self._pool(x) if self.key_pool == "before" else None
        return add_gram(
            x,
            self._projections(pixel_count((x if keys is None else keys).shape[2:])),
            self.out.bias,
            self.norm,
            keys=keys,
            fold=fold,
            memory=self._memory,
        )

    def _is_rank_one(self) -> bool:
        rank_one = self.view == "magnitude" and self.key_pool != "after"
        return rank_one and self._state(self.training)[-1]

    def _rank_one(self, x: Maps) -> Maps:
        keys = self._pool(x) if self.key_pool == "before" else x
        w, norm, constant = self._projections(pixel_count(keys.shape[2:])), self.norm, self.out.bias
        if norm is not None and folds_in_evaluation(norm):
            weight, constant = evaluation_projection(w.out, constant, norm)
            w, norm = w._replace(out=weight), None
        u = magnitude_branch(
            pixel_rows(self.theta(x)),
            pixel_rows(self.phi(keys)),
            pixel_rows(keys),
            w.g,
            w.g_bias,
            w.out,
            heads=w.heads,
            factor=w.factor,
        )
        u = rows_to_maps(u, x.shape[2:])
        if constant is not None:
            u = u + constant.view(-1, *[1] * self.dims)
        return add_branch(x, u, norm)

    def _embed(self, x: Maps) -> tuple[Tensor, Tensor, Tensor]:
        keys = self._pool(x) if self.key_pool == "before" else x
        theta, phi, g = self.theta(x), self.phi(keys), self.g(keys)
        if self.key_pool == "after":
            phi, g = self._pool(phi), self._pool(g)
        return theta, phi, g

    def _pool(self, x: Maps) -> Float[Tensor, "batch channels *keyspace"]:
        self._pooled(x.shape[2:])
        return _MAX_POOL[self.dims - 1](x, self.pool_kernel)

    def _projections(self, keys: int) -> Projections:
        return Projections(
            self.theta.weight.flatten(1),
            self.phi.weight.flatten(1),
            self.g.weight.flatten(1),
            self.out.weight.flatten(1),
            self.theta.bias,
            self.phi.bias,
            self.g.bias,
            heads=self.heads,
            factor=attention_scale(
                self.attention, keys, self.embed_channels // self.heads, self.scale
            ),
        )

    def _attention_options(self) -> dict[str, Any]:
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

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        *args: Any,
    ) -> None:
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
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, *args
        )
        if own is not None and key in missing_keys and not own.is_meta:
            missing_keys.remove(key)

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...


class NonLocal1d(_NonLocal):
    """A non-local block over (batch, channels, length)."""

    dims = 1
    _conv = nn.Conv1d
    _norm = nn.BatchNorm1d
    pool_kernel = (2,)


class NonLocal2d(_NonLocal):
    """A non-local block over (batch, channels, height, width)."""

    dims = 2
    _conv = nn.Conv2d
    _norm = nn.BatchNorm2d
    pool_kernel = (2, 2)


class NonLocal3d(_NonLocal):
    """A non-local block over (batch, channels, time, height, width); keys pool in space only."""

    dims = 3
    _conv = nn.Conv3d
    _norm = nn.BatchNorm3d
    pool_kernel = (1, 2, 2)


for _block in (NonLocal1d, NonLocal2d, NonLocal3d):
    _block.__doc__ = f"{_block.__doc__}\n\n    {_NonLocal.__doc__}"
