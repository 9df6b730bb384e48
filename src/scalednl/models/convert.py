"""Other people's non-local blocks replaced by ours, weights and state carried over."""

import re
from dataclasses import dataclass

import torch
from torch import nn

from scalednl.attentions import ATTENTIONS, BUILT_IN
from scalednl.models.assemble import Block, Parts, assemble, has_plain_weights, parts_of
from scalednl.models.fit_attention import Function
from scalednl.models.foreign import LAYOUTS, ConversionError, Names, names_alike, names_of_module
from scalednl.models.identify import HOOKS, identify
from scalednl.models.stack import BLOCKS
from scalednl.options import check_name

SAME = "same"
TARGETS = (*BUILT_IN, SAME)
CARRIED = (
    *HOOKS,
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_is_full_backward_hook",
)
STATE_HOOKS = (
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
NAME_ONLY = "has no theta, phi, g and out under names that are known"
CALLED_NONLOCAL = re.compile(r"non_?local|^nl_?(b$|block)", re.IGNORECASE)


@dataclass(frozen=True)
class Conversion:
    """One block that was converted."""

    path: str
    source: str
    was: str
    """The attention it had"""
    now: str
    channels: int
    embed_channels: int
    difference: float
    """Largest relative difference between the block and ours of the same attention, in float64"""
    notes: tuple[str, ...] = ()
    """What else changed"""

    def __str__(self) -> str:
        kept = "the same function" if self.was == self.now else "weights kept: fine-tune it"
        notes = "".join(f"; {note}" for note in self.notes)
        return (
            f"{self.path or 'the model'}: {self.source}, {self.channels} channels, "
            f"{self.embed_channels} embedded, {self.was} -> {self.now} ({kept}){notes}"
        )


@dataclass(frozen=True)
class Unconverted:
    """One block that was seen and left as it is."""

    path: str
    source: str
    """Its class"""
    why: str

    def __str__(self) -> str:
        return f"{self.path or 'the model'}: not converted: {self.source} {self.why}"


@dataclass(frozen=True)
class ConversionReport:
    """Every block that was converted, and every other one that was seen."""

    conversions: tuple[Conversion, ...]
    unconverted: tuple[Unconverted, ...] = ()

    def __str__(self) -> str:
        return "\n".join(str(line) for line in (*self.conversions, *self.unconverted))


@dataclass(frozen=True)
class _Found:
    """A foreign block that can be converted."""

    module: nn.Module
    names: Names
    function: Function
    difference: float


def convert(model: nn.Module, attention: str = "scaled") -> tuple[nn.Module, ConversionReport]:
    """Replace the non-local blocks of other implementations in `model`, in place.

    Known are those of mmcv, timm, SlowFast, SAGAN, DANet, BigGAN, the NONLocalBlock of many
    repositories, and the paper's authors, over one to three dimensions. What a block computes is
    found by trial, not read off its names; what ours cannot compute is left as it is and reported.

    The new blocks hold the same parameters as the old ones (where no gamma or factor had to be
    multiplied in), so their device, dtypes, frozen weights and frozen norms stay, as do hooks.

    Args:
        model: the network, or a foreign block itself; then the new block is returned.
        attention: what the new blocks compute. "scaled" keeps the weights and drops the softmax,
            so the network needs fine-tuning. "softmax", "mean" for dot-product blocks, or "same"
            for whatever each block was, computes the same function as before.
    """
    check_name("attention", attention, TARGETS)
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        torch.default_generator.manual_seed(0)
        found, unconverted = _search(model, attention)
    if not found:
        raise ValueError(_nothing_found(model, unconverted))
    for path, block in found.items():
        was = block.function.attention
        if attention not in (SAME, "scaled", was):
            raise ValueError(
                f"{path or type(model).__name__} is a {was} block: attention={attention!r} would "
                'be another function; use attention="same" to keep it, or "scaled"'
            )
    return _replace(model, found, attention, unconverted)


def _nothing_found(model: nn.Module, unconverted: tuple[Unconverted, ...]) -> str:
    if unconverted:
        lines = "".join(f"\n{line}" for line in unconverted)
        return f"{type(model).__name__} has no block that can be converted:{lines}"
    known = "; ".join(layout.source for layout in LAYOUTS)
    return f"{type(model).__name__} has no non-local block under names that are known ({known})"


def _search(model: nn.Module, attention: str) -> tuple[dict[str, _Found], tuple[Unconverted, ...]]:
    """All foreign blocks by path; a block in several places is tried once and found in each."""
    found: dict[str, _Found] = {}
    tried: dict[nn.Module, _Found | str | None] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        if module not in tried:
            tried[module] = _try(module, path, model, attention)
        result = tried[module]
        if isinstance(result, _Found):
            found[path] = result
    paths = [path for path, module in model.named_modules() if tried[module] is not None]
    unconverted = [
        Unconverted(path, type(module).__name__, why)
        for path, module in model.named_modules()
        if isinstance(why := tried[module], str)
        and not (why == NAME_ONLY and _contains_other(path, module, paths))
    ]
    return found, tuple(unconverted)


def _contains_other(path: str, module: nn.Module, paths: list[str]) -> bool:
    """Whether a module that is only called non-local is the container of real blocks."""
    inside = f"{path}." if path else ""
    return any(other.startswith(inside) and other != path for other in paths) or any(
        isinstance(child, BLOCKS) for child in module.modules()
    )


def _try(module: nn.Module, path: str, model: nn.Module, attention: str) -> _Found | str | None:
    """A block that can be converted, why a block cannot be, or None where there is no block."""
    if isinstance(module, BLOCKS):
        return None
    names = names_of_module(module)
    if names is None:
        alike = names_alike(module)
        if alike:
            kinds = ", ".join(f"{n} ({type(getattr(module, n)).__name__})" for n in alike)
            return f"has {kinds}, but not four convolutions under names that are known"
        return NAME_ONLY if CALLED_NONLOCAL.search(type(module).__name__) else None
    try:
        _check_hooks(module, names)
        if place := _plain_place(module, model):
            raise ConversionError(f"is also in {place}, which is no module: it would stay there")
        if path.rpartition(".")[2] == "_orig_mod":
            raise ConversionError("is compiled: convert it before torch.compile")
        found = _Found(module, names, *identify(module, names))
        # What cannot be made of its own parts, hooks included, is known before anything changes.
        _build(found, parts_of(module, names), _target(found, attention))
        return found
    except ConversionError as problem:
        return str(problem)
    except Exception as problem:  # any module, any error
        return f"could not be tried ({type(problem).__name__}: {problem})"


def _plain_place(module: nn.Module, model: nn.Module) -> str | None:
    """A list, tuple or dictionary of the model that holds the module unknown to torch, or None."""
    for parent in model.modules():
        for name, value in vars(parent).items():
            items = value.values() if isinstance(value, dict) else value
            plain = name != "_modules" and isinstance(value, (list, tuple, dict))
            if plain and any(item is module for item in items):
                return f"{type(parent).__name__}.{name}"
    return None


def _check_hooks(module: nn.Module, names: Names) -> None:
    """Raise where a hook would be lost: only those of the block and of its parts stay."""
    for name, child in module.named_modules(remove_duplicate=False):
        stays = not name or names.ours(f"{name}.") is not None
        if not stays and any(getattr(child, hooks) for hooks in HOOKS):
            raise ConversionError(
                f"has a hook on {name}, which would not exist afterwards: remove it first"
            )
    if any(getattr(module, hooks) for hooks in STATE_HOOKS):
        raise ConversionError(
            "has hooks on its state_dict, which would meet other names: remove them first"
        )


def _replace(
    model: nn.Module,
    found: dict[str, _Found],
    attention: str,
    unconverted: tuple[Unconverted, ...],
) -> tuple[nn.Module, ConversionReport]:
    made: dict[nn.Module, Block] = {}
    conversions = []
    for path, block in found.items():
        parts, function = parts_of(block.module, block.names), block.function
        now = _target(block, attention)
        if block.module not in made:
            made[block.module] = _build(block, parts, now)
        conversions.append(
            Conversion(
                path,
                block.names.layout.source,
                function.attention,
                now,
                parts.channels,
                parts.width,
                block.difference,
                tuple(_notes(block, parts, now)),
            )
        )
    for path, block in found.items():
        if not path:
            model = made[block.module]
            continue
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, made[block.module])
    return model, ConversionReport(tuple(conversions), unconverted)


def _target(found: _Found, attention: str) -> str:
    """What the new block computes: scaled attention if asked for, else the same as before."""
    return attention if attention == "scaled" else found.function.attention


def _build(found: _Found, parts: Parts, attention: str) -> Block:
    same = attention == found.function.attention
    factor = found.function.factor if same else 1.0
    block = assemble(parts, found.function.options(attention), factor)
    block.training = found.module.training
    for name in CARRIED:
        # The same dictionaries, so that the handles of these hooks still remove them.
        setattr(block, name, getattr(found.module, name))
    return block


def _notes(found: _Found, parts: Parts, now: str) -> list[str]:
    theta, g = parts.theta.out_channels, parts.g.out_channels
    notes = []
    if theta < g:
        notes.append(f"theta and phi padded with zeros from {theta} to {g} channels")
    if g < theta:
        notes.append(f"g padded with zeros from {g} to {theta} channels")
    if parts.out is None:
        notes.append("it had no output convolution: out is the identity")
    if parts.gamma is not None:
        value = f" ({parts.gamma.item():.3g})" if parts.gamma.numel() == 1 else ""
        target = "out" if parts.norm is None else "norm"
        notes.append(f"gamma{value} multiplied into {target}, which trains more freely")
    if now == found.function.attention and found.function.factor != 1:
        notes.append(f"out's weights multiplied by {found.function.factor:.6g}")
    hooks = sum(len(getattr(found.module, name)) for name in HOOKS)
    if hooks:
        notes.append(f"{hooks} hooks carried over" if hooks > 1 else "1 hook carried over")
    for part, conv in parts.convolutions.items():
        if ATTENTIONS[now].form != "softmax" and not has_plain_weights(conv):
            notes.append(f"{part} ({type(conv).__name__}) must be called: no gram order")
    return notes
