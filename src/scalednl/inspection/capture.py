"""The attention of a network's blocks while it runs, without changing its output.

Fused and gram attention never form a map, so nothing in a forward pass could be kept. Instead the
input of each block is embedded a second time, and maps are computed from that on demand.
"""

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from scalednl.attentions import ATTENTIONS
from scalednl.blocks import NonLocalBlock
from scalednl.inspection.factors import Factors, check_map_size, images_at_once, is_large_map
from scalednl.ops.attention import attention_scale, centred, nonlocal_attention
from scalednl.ops.layout import Maps, accumulation_dtype, full_precision, pixel_rows, rows_to_maps
from scalednl.ops.masks import shown
from scalednl.ops.own_attention import is_own, own_map, seen_by_own
from scalednl.ops.views import Heads, apply_view, merge_heads, split_heads

Keys = Float[Tensor, "batch heads keys width"]
Position = int | tuple[int, ...]
"""A pixel by its number in row-major order, or by its row and column"""


@dataclass(frozen=True)
class BlockAttention:
    """What one block attended to in its last call: y = A g in every image and head.

    Embeddings are as the block makes them, keys pooled where it pools them, and of half precision
    in float32.
    """

    name: str
    """The block's path in the model"""
    block: NonLocalBlock
    theta: Heads
    phi: Keys
    g: Keys
    query_size: tuple[int, ...]
    """Height and width of the map of queries; for others than images all their sizes"""
    key_size: tuple[int, ...]
    options: Mapping[str, Any]
    """The block's options in that call, with its temperature and reference"""
    mask: Bool[Tensor, "batch pixels"] | None = None
    """The queries that exist; None: all"""
    key_mask: Bool[Tensor, "batch keys"] | None = None
    """The keys that exist; None: all"""

    @cached_property
    def factors(self) -> Factors:
        """The maps of all images and heads by their factors."""
        if self.key_mask is not None or self.mask is not None:
            raise ValueError(
                f"{self.name} was called with a mask, so its images have different numbers of "
                "pixels: use alone(image).factors"
            )
        return self._factors(None)

    def alone(self, image: int) -> "BlockAttention":
        """The attention of one image without the pixels that do not exist, as one long row.

        Maps and scores are those of the image called by itself.
        """
        self._check("image", image, self.theta.shape[0])
        theta, phi, g = (v[image : image + 1] for v in (self.theta, self.phi, self.g))
        query_size, key_size = self.query_size, self.key_size
        if self.mask is not None:
            theta = theta[:, :, self.mask[image]]
            query_size = (theta.shape[2],)
        if self.key_mask is not None:
            phi, g = phi[:, :, self.key_mask[image]], g[:, :, self.key_mask[image]]
            key_size = (phi.shape[2],)
        return BlockAttention(
            *(self.name, self.block, theta, phi, g, query_size, key_size, self.options)
        )

    def parts(self) -> "Iterator[BlockAttention]":
        """The images in order, so many at a time that maps that must be formed stay small.

        Only an attention of a user's own forms the maps of all images at once.
        """
        step = max(1, len(self.theta))
        if is_own(self.block.attention):
            step = images_at_once(self.theta.shape[1], self.theta.shape[2], self.phi.shape[2])
        for first in range(0, len(self.theta), step):
            part = slice(first, first + step)
            theta, phi, g = (v[part] for v in (self.theta, self.phi, self.g))
            mask, key_mask = (None if m is None else m[part] for m in (self.mask, self.key_mask))
            yield replace(self, theta=theta, phi=phi, g=g, mask=mask, key_mask=key_mask)

    @property
    def is_large(self) -> bool:
        """Whether a map is too large to be formed at once."""
        return is_large_map(self.theta.shape[2], self.phi.shape[2])

    def _factors(self, exist: Bool[Tensor, " keys"] | None) -> Factors:
        if is_own(self.block.attention):
            return self._own_factors(exist)
        options = self.options
        softmax, view, center = (
            ATTENTIONS[options["attention"]].form == "softmax",
            options["view"],
            options["center"],
        )
        count, width = self.phi.shape[2:]
        if exist is not None:
            count = max(1, int(exist.sum()))
        f = attention_scale(
            *(options["attention"], count, width, options["scale"], options["reference_pixels"])
        )
        if softmax:
            f = width**-0.5 if options["softmax_scale"] is None else options["softmax_scale"]
        factor = torch.as_tensor(f, dtype=self.phi.dtype, device=self.phi.device).detach()
        factor = factor.expand(self.phi.shape[:2])
        phi = self.phi if exist is None else self.phi.masked_fill(~exist[:, None], 0)
        phi = apply_view(phi, view)
        if center is not None:
            phi = centred(phi, count, None if exist is None else exist[None, None, None])
        return Factors(
            *(apply_view(self.theta, view), phi, factor, softmax),
            mean_added=center == "keys+mean",
            exist=exist,
        )

    @torch.no_grad()
    def _own_factors(self, exist: Bool[Tensor, " keys"] | None) -> Factors:
        """A map that is no product of theta and phi is one of itself and the unit matrix."""
        keys = self.phi.shape[2]
        check_map_size(self.theta.shape[2], keys, self.theta.element_size())
        theta, phi = (seen_by_own(v, self.block.view) for v in (self.theta, self.phi))
        mask = None if exist is None else exist.expand(len(phi), keys)
        a = own_map(theta, phi, self.block.attention, mask)
        unit = torch.eye(keys, dtype=a.dtype, device=a.device).expand(*a.shape[:2], keys, keys)
        return Factors(a, unit, a.new_ones(a.shape[:2]), False, exist=exist, is_product=False)

    def attended(
        self, theta: Heads | None = None, phi: Keys | None = None, **options: Any
    ) -> Heads:
        """y = A g without forming A; with other embeddings or options of the attention if given."""
        theta, phi = self.theta if theta is None else theta, self.phi if phi is None else phi
        y = nonlocal_attention(
            rows_to_maps(merge_heads(theta), self.query_size),
            rows_to_maps(merge_heads(phi), self.key_size),
            rows_to_maps(merge_heads(self.g), self.key_size),
            **{**self.options, **options},
            key_mask=None if self.key_mask is None else self.key_mask.unflatten(1, self.key_size),
        )
        return split_heads(pixel_rows(y), self.block.heads)

    def maps(self, y: Heads) -> Maps:
        """y of all heads as maps, in the dtype of the block's weights: what `out` takes."""
        maps = rows_to_maps(merge_heads(y), self.query_size)
        return maps.to(self.block.dtype or maps.dtype)

    def rows(
        self, image: int, head: int, queries: Sequence[Position]
    ) -> Float[Tensor, "rows keys"]:
        """A_i of some queries: where these pixels look. Costs as many entries as it gives."""
        indices = [self.query_index(query) for query in queries]
        return self._one(image, head).rows(indices)

    def map(self, image: int, head: int) -> Float[Tensor, "queries keys"]:
        """A, entry by entry. Refused where it is too large: use `rows` or `chunks` there."""
        return self._one(image, head).complete()

    def chunks(self, image: int, head: int) -> Iterator[Float[Tensor, "rows keys"]]:
        """All rows of A in order, some at a time."""
        return self._one(image, head).chunks()

    def column_mean(self, image: int, head: int) -> Float[Tensor, "keys"]:
        """mean_i A_ij: what each key gets on average over the queries that exist."""
        found = self._one(image, head)
        if self.mask is not None and self.mask[image].any():
            found = replace(found, theta=found.theta[self.mask[image]])
        return found.column_mean()

    def query_index(self, query: Position) -> int:
        """The number of a pixel of the map of queries."""
        sizes = "x".join(str(size) for size in self.query_size)
        if isinstance(query, int):
            if not 0 <= query < self.theta.shape[2]:
                raise ValueError(
                    f"query {query} is outside: {self.name} has queries 0 to "
                    f"{self.theta.shape[2] - 1} ({sizes})"
                )
            return query
        inside = len(query) == len(self.query_size) and all(
            0 <= place < size for place, size in zip(query, self.query_size, strict=True)
        )
        if not inside:
            raise ValueError(f"query {query} is outside: {self.name} sees a map of {sizes}")
        index = 0
        for place, size in zip(query, self.query_size, strict=True):
            index = index * size + place
        return index

    def _one(self, image: int, head: int) -> Factors:
        self._check("image", image, self.theta.shape[0])
        self._check("head", head, self.theta.shape[1])
        if self.key_mask is None and not is_own(self.block.attention):
            return (self.factors if self.mask is None else self._factors(None)).at(image, head)
        one = slice(image, image + 1)
        theta, phi, g = (v[one] for v in (self.theta, self.phi, self.g))
        found = replace(self, theta=theta, phi=phi, g=g, mask=None, key_mask=None)
        exist = None if self.key_mask is None else self.key_mask[image]
        return found._factors(exist).at(0, head)

    def _check(self, what: str, value: int, count: int) -> None:
        if not 0 <= value < count:
            raise ValueError(
                f"{what} {value} does not exist: {self.name} has {what}s 0 to {count - 1}"
            )


class Capture:
    """The captured blocks, in the order of the model, and what each attended to last."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._found: dict[str, BlockAttention] = {}

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[BlockAttention]:
        return (self[name] for name in self.names)

    def __getitem__(self, block: int | str) -> BlockAttention:
        """A block by its number or its path."""
        name = find_block(self.names, block)
        if name not in self._found:
            raise ValueError(
                f"{name} has not been called: run the model inside `with capture_attention(...)`"
            )
        return self._found[name]

    def add(self, found: BlockAttention) -> None:
        """Keep what a block saw, in the place of what it saw before."""
        self._found[found.name] = found


@contextmanager
def capture_attention(
    model: nn.Module, blocks: int | str | Sequence[int | str] | None = None
) -> Iterator[Capture]:
    """Capture the attention of a model's non-local blocks while it runs.

    `with capture_attention(model) as seen: model(x)`, and `seen[0].map(image, head)` is the map of
    the first block. Of every block the last call in this thread is kept, also after the `with`: a
    loop over batches does not fill the memory. The model computes what it would without, bit for
    bit. A block whose theta, phi or g was replaced, hooked or parametrised calls that once more.

    Args:
        model: any module with blocks of ours: made by us, inserted, or converted.
        blocks: which ones, by number or path; None is all.
    """
    if _is_compiled(model):
        raise ValueError(
            "the attention of a compiled model cannot be captured: capture the model that was "
            "compiled, which has the same weights"
        )
    every = nonlocal_blocks(model)
    blocks = [blocks] if isinstance(blocks, int | str) else blocks
    wanted = list(every) if blocks is None else [find_block(list(every), b) for b in blocks]
    seen = Capture(wanted)
    handles = [_watch(every[name], name, seen) for name in wanted]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _is_compiled(model: nn.Module) -> bool:
    """Whether calling it runs code that was compiled before any hook was set."""
    # Without the compiler loaded nothing is compiled; loading it to ask takes 100 MB.
    compiler = sys.modules.get("torch._dynamo")
    wrapped = compiler is not None and isinstance(model, compiler.OptimizedModule)
    return wrapped or getattr(model, "_compiled_call_impl", None) is not None


def nonlocal_blocks(model: nn.Module) -> dict[str, NonLocalBlock]:
    """Path to block, of all non-local blocks in a model."""
    found = {n: m for n, m in model.named_modules() if isinstance(m, NonLocalBlock)}
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no non-local block: put some in with "
            "scalednl.insert_nonlocal, or make foreign ones ours with scalednl.convert"
        )
    return found


def find_block(names: Sequence[str], block: int | str) -> str:
    """The path of a block given by number or path."""
    if isinstance(block, int) and 0 <= block < len(names):
        return names[block]
    if isinstance(block, str) and block in names:
        return block
    listed = ", ".join(f"{index} ({name})" for index, name in enumerate(names))
    raise ValueError(f"block {block} does not exist: there are {listed}")


def observe(
    block: NonLocalBlock,
    x: Tensor,
    name: str = "",
    *,
    mask: Tensor | None = None,
    keys: Tensor | None = None,
    key_mask: Tensor | None = None,
) -> BlockAttention:
    """What a block attends to in x, by its embeddings, without gradients.

    They are as autocast makes them; the gram order computes without autocast, so they do too.
    """
    key_shape = None if keys is None else keys.shape
    gram = block.choice(x.shape, key_shape, masked=mask is not None).order == "gram"
    key_mask = mask if keys is None else key_mask
    with torch.no_grad(), full_precision(x) if gram else nullcontext():
        dtype = (block.dtype or x.dtype) if gram else x.dtype
        if keys is not None:
            keys = shown(keys.to(dtype), key_mask)
        theta, phi, g = block.embed(shown(x.to(dtype), mask), keys)
    sizes = tuple(theta.shape[2:]), tuple(phi.shape[2:])
    masks = (None if m is None else m.flatten(1) for m in (mask, key_mask))
    theta, phi, g = (
        split_heads(pixel_rows(value), block.heads).to(accumulation_dtype(value.dtype))
        for value in (theta, phi, g)
    )
    return BlockAttention(name, block, theta, phi, g, *sizes, _now(block), *masks)


def _now(block: NonLocalBlock) -> dict[str, Any]:
    """The options of a block that stay as they are, whatever becomes of it."""
    options = block.attention_options()
    return {k: v.detach().clone() if isinstance(v, Tensor) else v for k, v in options.items()}


def _watch(block: NonLocalBlock, name: str, seen: Capture) -> Any:
    owner = threading.get_ident()

    def keep(_: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], __: Tensor) -> None:
        # Blocks of one capture are of one batch; a batch of another thread has its own capture.
        if threading.get_ident() != owner:
            return
        given = dict(named)
        x = inputs[0] if inputs else given.pop("x")
        seen.add(observe(block, x, name, **given))

    # A hook on the block, not on its convolutions: those would take it out of the gram order.
    return block.register_forward_hook(keep, with_kwargs=True)
