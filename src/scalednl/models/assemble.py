"""A block of ours from the parts of a foreign one.

Convolutions and norms that fit are used as they are: the same modules with the same parameters. So
devices, dtypes, frozen weights, frozen norms, hooks on them and ties between blocks stay, and an
optimizer that holds the parameters still trains them.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from scalednl.blocks import NonLocal1d, NonLocal2d, NonLocal3d
from scalednl.blocks.folding import CONVOLUTIONS, is_plain
from scalednl.models.foreign import EMBEDDINGS, PARTS, ConversionError, Names, adapt, check_shapes
from scalednl.models.stack import BLOCKS

Block = NonLocal1d | NonLocal2d | NonLocal3d
Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


@dataclass(frozen=True)
class Parts:
    """The modules of one foreign block that a block of ours is made of."""

    theta: Convolution
    phi: Convolution
    g: Convolution
    out: Convolution | None
    norm: nn.Module | None
    gamma: Tensor | None

    @property
    def dims(self) -> int:
        """1, 2 or 3 axes of space."""
        return len(self.theta.kernel_size)

    @property
    def channels(self) -> int:
        """C, the channels of x."""
        return self.theta.in_channels

    @property
    def width(self) -> int:
        """E, the embedding channels that all embeddings fit into."""
        return max(self.theta.out_channels, self.g.out_channels)

    @property
    def convolutions(self) -> dict[str, Convolution]:
        """Those that exist, by our names."""
        return {part: conv for part in PARTS if (conv := getattr(self, part)) is not None}

    def tensors(self) -> dict[str, Tensor]:
        """Weights and biases by our names; of weights that are computed, only the shape.

        Spectral norm changes its state whenever its weight is read in training.
        """
        found: dict[str, Tensor] = {}
        for part, module in {**self.convolutions, "norm": self.norm}.items():
            parameters = {} if module is None else module._parameters
            for kind in ("weight", "bias"):
                if (tensor := parameters.get(kind)) is not None:
                    found[f"{part}.{kind}"] = tensor
                elif kind == "weight" and isinstance(module, CONVOLUTIONS):
                    shape = (module.out_channels, module.in_channels, *module.kernel_size)
                    found[f"{part}.{kind}"] = torch.empty(shape, device="meta")
        return found


def parts_of(module: nn.Module, names: Names) -> Parts:
    """The parts of a block; raises where they cannot be those of ours."""
    modules = {part: module.get_submodule(stem) for part, stem in names.parts.items()}
    for part, conv in modules.items():
        if not isinstance(conv, CONVOLUTIONS):
            raise ConversionError(f"has a {type(conv).__name__} as {part}, not a convolution")
        _check_pointwise(part, conv)
    further = [
        name
        for name, _ in module.named_parameters(remove_duplicate=False)
        if names.ours(name) is None
    ]
    if further:
        raise ConversionError(f"has further weights ({', '.join(further[:4])})")
    parts = Parts(
        modules["theta"],  # type: ignore[arg-type]
        modules["phi"],  # type: ignore[arg-type]
        modules["g"],  # type: ignore[arg-type]
        modules.get("out"),  # type: ignore[arg-type]
        module.get_submodule(names.norm) if names.norm else None,
        module.get_parameter(names.gamma) if names.gamma else None,
    )
    _check_widths(parts)
    return parts


def _check_pointwise(part: str, conv: Convolution) -> None:
    sizes = "x".join(str(size) for size in conv.kernel_size)
    if any(size != 1 for size in conv.kernel_size):
        raise ConversionError(f"has a {sizes} convolution as {part}; ours are 1x1")
    if any(step != 1 for step in conv.stride):
        raise ConversionError(f"has a strided convolution as {part}; ours have stride 1")
    if conv.groups != 1:
        raise ConversionError(f"has a grouped convolution as {part}; ours have one group")


def _check_widths(parts: Parts) -> None:
    if len({len(conv.kernel_size) for conv in parts.convolutions.values()}) > 1:
        raise ConversionError("has convolutions over different numbers of axes")
    check_shapes(parts.tensors())
    if parts.gamma is not None and parts.gamma.numel() not in (1, parts.channels):
        raise ConversionError(f"has a gamma of {parts.gamma.numel()} numbers")


def assemble(parts: Parts, options: Mapping[str, Any], factor: float = 1.0) -> Block:
    """The block of ours with these options, and y multiplied by `factor`."""
    before = parts.tensors()
    after = adapt(before, parts.gamma, parts.norm is not None, factor)
    with torch.device("meta"):
        block = BLOCKS[parts.dims - 1](
            parts.channels, embed_channels=parts.width, norm=False, **options
        )
    for part in PARTS:
        setattr(block, part, _convolution(parts, part, before, after))
    block.norm = _norm(parts, before, after)
    return block


def _convolution(
    parts: Parts, part: str, before: Mapping[str, Tensor], after: Mapping[str, Tensor]
) -> Convolution:
    old: Convolution | None = getattr(parts, part)
    if old is not None and not _changed(part, before, after):
        return old
    if old is not None and not has_plain_weights(old):
        raise ConversionError(
            f"has a {type(old).__name__} as {part} whose weights would have to be changed (for "
            "gamma, a factor or other widths), but it computes them or has hooks: remove these "
            "first"
        )
    weight = after[f"{part}.weight"]
    with torch.device("meta"):
        outputs, inputs = weight.shape[:2]
        new = CONVOLUTIONS[parts.dims - 1](inputs, outputs, 1, bias=f"{part}.bias" in after)
    _set_parameters(new, part, parts, before, after)
    return new.train(parts.theta.training if old is None else old.training)


def _norm(
    parts: Parts, before: Mapping[str, Tensor], after: Mapping[str, Tensor]
) -> nn.Module | None:
    if parts.norm is None or not _changed("norm", before, after):
        return parts.norm
    new = copy.deepcopy(parts.norm)
    _set_parameters(new, "norm", parts, before, after)
    return new


def _set_parameters(
    module: nn.Module,
    part: str,
    parts: Parts,
    before: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
) -> None:
    """New parameters, trained if what they were made from is; an identity by itself is not."""
    for kind in ("weight", "bias"):
        name = f"{part}.{kind}"
        if name in after:
            sources = [before.get(name), None if part in EMBEDDINGS else parts.gamma]
            trained = any(source is not None and source.requires_grad for source in sources)
            setattr(module, kind, nn.Parameter(after[name].detach(), requires_grad=trained))


def _changed(part: str, before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> bool:
    names = (f"{part}.weight", f"{part}.bias")
    return any(before.get(name) is not after.get(name) for name in names)


def has_plain_weights(conv: Convolution) -> bool:
    """Whether a convolution computes with its parameters and nothing else, and has no hook."""
    return is_plain(conv, CONVOLUTIONS) and "weight" in conv._parameters
