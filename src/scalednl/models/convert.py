"""Other people's non-local blocks made into ours, weights carried over."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from scalednl.blocks import NonLocal1d, NonLocal2d, NonLocal3d
from scalednl.models.foreign import LAYOUTS, PARTS, ForeignBlock, recognise
from scalednl.options import check_name

Target = Literal["scaled", "softmax", "mean", "same"]
TARGETS = ("scaled", "softmax", "mean", "same")
BLOCKS = (NonLocal1d, NonLocal2d, NonLocal3d)
TRIAL_SPACE = (6, 4, 6)
TOLERANCE = 1e-5

Block = NonLocal1d | NonLocal2d | NonLocal3d


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

    def __str__(self) -> str:
        kept = "the same function" if self.was == self.now else "weights kept: fine-tune it"
        return (
            f"{self.path or 'the model'}: {self.source}, {self.channels} channels, "
            f"{self.embed_channels} embedded, {self.was} -> {self.now} ({kept})"
        )


@dataclass(frozen=True)
class ConversionReport:
    """Every block that was converted."""

    conversions: tuple[Conversion, ...]

    def __str__(self) -> str:
        return "\n".join(str(conversion) for conversion in self.conversions)


def convert(model: nn.Module, attention: Target = "scaled") -> tuple[nn.Module, ConversionReport]:
    """Replace the non-local blocks of other implementations in `model`, in place.

    Known are those of mmcv, timm, SlowFast, the NONLocalBlock of many repositories, and the paper's
    authors, over one to three dimensions, with their biases, norms, key pooling and scales.

    Args:
        model: the network, or a foreign block itself; then the new block is returned.
        attention: what the new blocks compute. "scaled" keeps the weights and drops the softmax,
            so the network needs fine-tuning. "softmax", "mean" for dot-product blocks, or "same"
            for whatever each block was, computes the same function as before.
    """
    check_name("attention", attention, TARGETS)
    found = {
        path: (module, foreign)
        for path, module in model.named_modules(remove_duplicate=False)
        if (foreign := recognise(module.state_dict(), type(module).__name__)) is not None
    }
    if not found:
        known = ", ".join(layout.source for layout in LAYOUTS)
        alike = [
            f"{path or 'the model'} ({type(module).__name__})"
            for path, module in model.named_modules()
            if "nonlocal" in type(module).__name__.lower() and not isinstance(module, BLOCKS)
        ]
        hint = f"; not convertible: {', '.join(alike)}" if alike else ""
        raise ValueError(
            f"{type(model).__name__} has no block with theta, phi, g and out of {known}{hint}"
        )
    with torch.random.fork_rng(devices=[]):
        return _converted(model, found, attention)


def _converted(
    model: nn.Module, found: dict[str, tuple[nn.Module, ForeignBlock]], attention: Target
) -> tuple[nn.Module, ConversionReport]:
    made: dict[nn.Module, Block] = {}
    conversions = []
    for path, (module, foreign) in found.items():
        options = _identify(module, foreign, path)
        was = options["attention"]
        now = was if attention == "same" else attention
        if now != was and now != "scaled":
            raise ValueError(
                f"{path or type(model).__name__!r} is a {was} block: attention={attention!r} would "
                'be another function; use attention="same" to keep it, or "scaled"'
            )
        if module not in made:
            made[module] = _build(foreign, {**options, "attention": now}, module)
        conversions.append(
            Conversion(
                path, foreign.layout.source, was, now, foreign.channels, foreign.embed_channels
            )
        )
    for path, (module, _) in found.items():
        if not path:
            return made[module], ConversionReport(tuple(conversions))
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, made[module])
    return model, ConversionReport(tuple(conversions))


def load_foreign_state_dict(
    model: nn.Module, state_dict: Mapping[str, Tensor], rename: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Load a checkpoint whose non-local blocks are foreign into a model that has ours.

    Returns the paths of the blocks that were translated. What the blocks compute is the model's
    own affair: make them with the options of the checkpoint's implementation.

    Args:
        model: a network with a block of ours wherever the checkpoint has a foreign one.
        state_dict: the checkpoint's weights.
        rename: prefixes of the checkpoint -> prefixes of the model, where they differ.
    """
    renamed = {_renamed(key, rename or {}): value for key, value in state_dict.items()}
    translated, loaded = [], dict(renamed)
    for path, block in model.named_modules():
        if not isinstance(block, BLOCKS):
            continue
        prefix = f"{path}." if path else ""
        inside = {k.removeprefix(prefix): v for k, v in renamed.items() if k.startswith(prefix)}
        foreign = recognise(inside)
        if foreign is None:
            continue
        for key in inside:
            del loaded[prefix + key]
        loaded.update({prefix + ours: value for ours, value in foreign.weights.items()})
        translated.append(path)
    if not translated:
        raise ValueError(
            "no block of the model finds foreign weights under its path in the checkpoint: "
            f"the checkpoint has {', '.join(list(renamed)[:5])}, ...; use rename={{...}}"
        )
    model.load_state_dict(loaded)
    return tuple(translated)


def _renamed(key: str, rename: Mapping[str, str]) -> str:
    for old, new in rename.items():
        if key == old or key.startswith(old + "."):
            return new + key.removeprefix(old)
    return key


def _identify(module: nn.Module, foreign: ForeignBlock, path: str) -> dict[str, Any]:
    """The options of ours that compute what `module` does, found with random weights."""
    trial = copy.deepcopy(module).double().cpu().eval()
    torch.manual_seed(0)
    _randomise(trial)
    shape = (2, foreign.channels, *TRIAL_SPACE[-foreign.dims :])
    x = torch.randn(shape, dtype=torch.float64)
    with torch.no_grad():
        branch = trial(x) - x
        renewed = recognise(trial.state_dict(), type(module).__name__)
        assert renewed is not None
        for options in foreign.candidates():
            ours = _build(renewed, options, trial)(x) - x
            if (ours - branch).norm() <= TOLERANCE * branch.norm():
                return options
    raise ValueError(
        f"{path or 'the model'} looks like a block of {foreign.layout.source} but computes what "
        "no option of ours does (another pairwise function, pooling or residual): it cannot be "
        "converted"
    )


def _randomise(module: nn.Module) -> None:
    """Weights that tell every variant from the others, whatever the block was initialised to."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=max(1, parameter[0].numel()) ** -0.5)
    for name, buffer in module.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
        elif name.endswith("running_mean"):
            buffer.normal_()


def _build(foreign: ForeignBlock, options: dict[str, Any], module: nn.Module) -> Block:
    """Our block with these options and the foreign weights, on their device and in their dtype."""
    biases = foreign.biases
    if options["attention"] != "softmax":
        options = {k: v for k, v in options.items() if k != "softmax_scale"}
    block = BLOCKS[foreign.dims - 1](
        foreign.channels,
        embed_channels=foreign.embed_channels,
        bias=any(biases.values()),
        norm=foreign.has_norm,
        **options,
    )
    for part in PARTS:
        if not biases[part]:
            block.get_submodule(part).register_parameter("bias", None)
    if foreign.has_norm:
        stem = foreign.keys["norm.running_mean"].removesuffix(".running_mean")
        norm = module.get_submodule(stem)
        assert isinstance(norm, _BatchNorm)
        block.norm = copy.deepcopy(norm)
    like = foreign.weights["theta.weight"]
    block.to(like.device, like.dtype).load_state_dict(foreign.weights)
    return block.train(module.training)
