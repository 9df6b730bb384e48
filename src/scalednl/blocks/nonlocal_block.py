"""The non-local block: one module for every attention, view and order, in 1 to 3 dimensions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from scalednl.blocks import checks, forward
from scalednl.blocks.apply_moments import add_moments
from scalednl.blocks.folding import MODULES, KeyMaps, KeyMask
from scalednl.blocks.forward import Parts
from scalednl.blocks.init import draw, made_norm, reset_as_made, reset_log, reset_norm, start
from scalednl.blocks.optional_state import count_keys, load_optional, note_pixels
from scalednl.config import BlockConfig
from scalednl.ops.attention import attention_map
from scalednl.ops.costs import BlockState
from scalednl.ops.layout import Maps
from scalednl.ops.masks import Mask
from scalednl.ops.moments import Moments
from scalednl.ops.own_attention import is_own, ready
from scalednl.ops.planner import Choice, Plan
from scalednl.options import (
    Attention,
    Bias,
    Center,
    KeyPool,
    Memory,
    Order,
    PoolSize,
    ReferencePixels,
    View,
    biased,
    check_attention,
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
    - others:              functions of your own (`scalednl.register_attention`)

    and A has one map per head. `order` is how the product is computed; it changes the cost and
    never the result. The weights have the same names and shapes in every variant, so a state_dict
    can be loaded into any of them. The paper prints y; out, norm and the sum with x are those of
    the authors' release.

    Args:
        channels: C, the channels of x.
        norm_layer: a function of the channels that makes another norm, such as nn.SyncBatchNorm or
            lambda channels: nn.GroupNorm(8, channels).
        device: where the weights are made, as in torch.nn; from "meta", `to_empty` and then
            `reset_parameters` start the block.
        dtype: that of the weights.

    All other options are those of `scalednl.BlockConfig`; order and memory may be set later.

    Where the weights alone decide, theta, phi, g, out and norm are not called. Hooks on them are
    respected, by calling them; hooks on all modules at once (register_module_forward_hook) are not,
    because profilers set those and must not change what they measure.
    """

    dims: ClassVar[int]
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
        key_pool_size: PoolSize = 2,
        memory: Memory = "auto",
        center: Center | None = None,
        reference_pixels: ReferencePixels | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        channels = check_positive("channels", channels)
        width = channels if embed_channels is None else embed_channels
        width = check_positive("embed_channels", width)
        check_attention(attention)
        init = default_init(attention) if init is None else init
        # Order and memory are checked whenever they are set.
        checked = BlockConfig(
            *(attention, view, heads, width, init, "auto", bias, norm, norm_init),
            *(scale, softmax_scale, key_pool, key_pool_size, "auto", center, reference_pixels),
        )
        if is_own(attention):
            ready(attention)
        self.channels, self.embed_channels, self.heads = channels, width, heads
        self.attention, self.view, self.scale, self.key_pool = attention, view, scale, key_pool
        self.softmax_scale, self.center, self.init = softmax_scale, center, init
        self.reference_pixels, self.norm_init = reference_pixels, norm_init
        self.key_pool_size = checked.key_pool_size
        self.pool_kernel = forward.pool_kernel(key_pool, self.key_pool_size, self.dims)
        self.order, self.memory = order, memory

        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        convolution, batch_norm = MODULES[self.dims]
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
        self.running_pixels: Tensor | None
        seen = torch.zeros((), dtype=torch.float32, device=device)
        self.register_buffer("running_pixels", seen if reference_pixels == "running" else None)
        checks.warn_of_dead_block(init)
        self._start()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "NonLocalBlock":
        """Move or cast all tensors but the number of pixels, which half precision cannot hold."""
        before = self.running_pixels
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        after = self.running_pixels
        if before is not None and after is not None and after.dtype != before.dtype:
            self.running_pixels = before.to(after.device)
        return self

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
        if self.running_pixels is not None:
            nn.init.zeros_(self.running_pixels)

    def forward(
        self,
        x: Maps,
        *,
        mask: Mask | None = None,
        keys: KeyMaps | None = None,
        key_mask: KeyMask | None = None,
    ) -> Maps:
        """z, of the shape and memory layout of x.

        Args:
            x: (batch, channels, *space).
            mask: (batch, *space), True at pixels that exist. The others are no keys, are not in
                batch norm's statistics, and z = x there.
            keys: another map of as many channels, of any size, that x attends to instead of itself.
            key_mask: the mask of `keys`.
        """
        given = {"mask": mask, "keys": keys, "key_mask": key_mask}
        if (node := checks.fx_node(self, x, **given)) is not None:
            return node
        self._check(x, **given)
        options = self.attention_options()
        if self.running_pixels is not None and self.training:
            shape, seen = (x.shape, mask) if keys is None else (keys.shape, key_mask)
            note_pixels(self.running_pixels, count_keys(shape, self.pool_kernel, seen))
        return forward.forward(
            x,
            self._parts,
            self.choice(x.shape, None if keys is None else keys.shape, masked=mask is not None),
            **given,
            key_pool=self.key_pool,
            kernel=self.pool_kernel,
            memory=self.memory,
            **options,
        )

    def embed(self, x: Maps, keys: KeyMaps | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """theta of x, and phi and g of `keys`, x if None, as maps; pooled where `key_pool` is set.

        With masks, values of pixels that do not exist are to be left out by the caller.
        """
        self._check(x, keys=keys)
        return forward.embed(x, self._parts, self.key_pool, self.pool_kernel, keys)

    def attention_options(self) -> dict[str, Any]:
        """The keyword arguments with which `scalednl.functional` computes this block's attention.

        A learned temperature is the tensor that it is now, one number per head, and the running
        number of pixels, in evaluation, a tensor too.
        """
        return forward.attention_options(self)

    def attention_map(
        self,
        x: Maps,
        *,
        mask: Mask | None = None,
        keys: KeyMaps | None = None,
        key_mask: KeyMask | None = None,
    ) -> Float[Tensor, "batch heads pixels keys"]:
        """A of every head with every factor in it: y = A g, whatever the order.

        Rows are queries and columns keys, both in row-major order of the image. Columns of keys
        that do not exist are 0; rows of such queries mean nothing.
        """
        self._check(x, mask=mask, keys=keys, key_mask=key_mask)
        theta, phi, _ = self.embed(x, keys)
        key_mask = mask if keys is None else key_mask
        return attention_map(theta, phi, key_mask=key_mask, **self.attention_options())

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the weights; None where modules without weights took the block's places."""
        # FSDP and replicas of nn.DataParallel leave a block with weights but without parameters.
        if (weight := self._parts.weight()) is not None:
            return weight.dtype
        return next((parameter.dtype for parameter in self.parameters()), None)

    def state(
        self, training: bool | None = None, *, masked: bool = False, other_keys: bool = False
    ) -> BlockState:
        """What the block's cost and order depend on, as it is now.

        `training` None is the mode it is in; of another mode, the norm is assumed to be in it too.
        """
        return forward.block_state(
            self._parts,
            (self.channels, self.embed_channels),
            *(self.heads, self.attention, self.view, self.key_pool),
            kernel=self.pool_kernel,
            training=self.training if training is None else training,
            norm_training=None if training in (None, self.training) else training,
            memory=self.memory,
            center=self.center,
            masked=masked,
            other_keys=other_keys,
        )

    def choice(
        self,
        shape: Sequence[int],
        key_shape: Sequence[int] | None = None,
        *,
        masked: bool = False,
    ) -> Choice:
        """The order that an input of this shape is computed in now, and whether the norm folds.

        `key_shape` is that of other keys, `masked` whether there is a mask of x.
        """
        state = self.state(masked=masked, other_keys=key_shape is not None)
        return forward.choice_of(state, self.order, shape, key_shape)

    def plan(
        self,
        shape: Sequence[int],
        training: bool | None = None,
        *,
        key_shape: Sequence[int] | None = None,
        masked: bool = False,
    ) -> Plan:
        """What each order would cost on an input of this shape, and which one is chosen.

        Printed, it is a small table. `training` None is the mode that the block is in now;
        `key_shape` is that of other keys, `masked` whether there is a mask of x.
        """
        for given in (shape, shape if key_shape is None else key_shape):
            checks.check_planned(type(self).__name__, given, self.channels, self.dims)
        state = self.state(training, masked=masked, other_keys=key_shape is not None)
        return forward.plan_of(state, self.order, shape, key_shape)

    def apply_moments(
        self,
        x: Maps,
        moments: Moments,
        *,
        mask: Mask | None = None,
        update_norm: bool = True,
    ) -> Maps:
        """z of a tile that attends to every pixel `moments` has seen: as if cut out of the result.

        Where `mask` is False, z = x. In training mode batch norm uses the statistics of all those
        pixels too. They enter its running statistics, and reference_pixels="running", once per
        call, unless `update_norm` is False: leave it True for one tile.
        """
        self._check(x, mask=mask)
        z = add_moments(
            *(x, moments, self._parts, self.attention_options(), self.state()),
            mask=mask,
            update_norm=update_norm,
        )
        if self.running_pixels is not None and self.training and update_norm:
            note_pixels(self.running_pixels, moments.pixels)
        return z

    def extra_repr(self) -> str:
        """The options that differ from a plain scaled block, after those that always matter."""
        words = [f"{self.channels}, attention={self.attention!r}, heads={self.heads}"]
        words += [f"order={str(self.order)!r}"]
        usual: dict[str, object] = {"view": "base", "key_pool": None, "key_pool_size": 2}
        usual |= {"scale": True, "softmax_scale": "embed", "memory": "auto", "center": None}
        usual |= {"reference_pixels": None, "embed_channels": self.channels}
        for name, value in usual.items():
            if getattr(self, name) != value:
                words.append(f"{name}={getattr(self, name)!r}")
        return ", ".join(words)

    def __setattr__(self, name: str, value: Any) -> None:
        checks.check_assignment(self, name, value)
        super().__setattr__(name, value)

    def _check(self, x: Tensor, **given: Tensor | None) -> None:
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            checks.refuse_torchscript(self)
        checks.check_call(self, x, **given)

    def __prepare_scriptable__(self) -> NoReturn:
        checks.refuse_torchscript(self)

    @property
    def _parts(self) -> Parts:
        return Parts(self.theta, self.phi, self.g, self.out, self.norm)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        load_optional(self, super()._load_from_state_dict, state_dict, prefix, *args)

    if TYPE_CHECKING:

        def __call__(  # noqa: D102
            self,
            x: Tensor,
            *,
            mask: Tensor | None = None,
            keys: Tensor | None = None,
            key_mask: Tensor | None = None,
        ) -> Tensor: ...
