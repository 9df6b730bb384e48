"""How other implementations of the non-local block name their weights, and how these become ours.

A block is found by names alone. What it computes is then found by trial (`models.identify`), so a
row in the table below never makes a conversion wrong: it only makes one possible.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

EMBEDDINGS = ("theta", "phi", "g")
PARTS = (*EMBEDDINGS, "out")
GAMMAS = ("gamma", "alpha", "sigma", "gamma.scale")
"""Names of the number that multiplies the branch in z = x + gamma * branch"""


class ConversionError(ValueError):
    """Why a block cannot become one of ours: a sentence that continues the name of the block."""


@dataclass(frozen=True)
class Layout:
    """The names of one implementation; of several names for one part the first that exists."""

    source: str
    theta: tuple[str, ...]
    phi: tuple[str, ...]
    g: tuple[str, ...]
    out: tuple[str, ...]
    norm: tuple[str, ...] = ()
    out_optional: bool = False
    names_tell_pooling: bool = False
    """Whether phi is called phi.0 exactly where max-pooling follows it"""


LAYOUTS = (
    Layout(
        "mmcv",
        theta=("theta.conv",),
        phi=("phi.0.conv", "phi.conv"),
        g=("g.0.conv", "g.conv"),
        out=("conv_out.conv",),
        norm=("conv_out.bn", "conv_out.gn", "conv_out.in", "conv_out.ln"),
        names_tell_pooling=True,
    ),
    Layout("timm", theta=("t",), phi=("p",), g=("g",), out=("z",), norm=("norm", "bn")),
    Layout(
        "SlowFast",
        theta=("conv_theta",),
        phi=("conv_phi",),
        g=("conv_g",),
        out=("conv_out",),
        norm=("bn",),
    ),
    Layout(
        "the authors' release",
        theta=("theta_conv",),
        phi=("pi_conv",),
        g=("g_conv",),
        out=("z_conv",),
        norm=("z_bn",),
    ),
    Layout(
        "NONLocalBlock",
        theta=("theta",),
        phi=("phi.0", "phi"),
        g=("g.0", "g"),
        out=("W.0", "W", "W_z.0", "W_z"),
        norm=("W.1", "W_z.1"),
        names_tell_pooling=True,
    ),
    Layout("BigGAN", theta=("theta",), phi=("phi",), g=("g",), out=("o",)),
    Layout(
        "theta, phi, g, out",
        theta=("theta",),
        phi=("phi",),
        g=("g",),
        out=("out", "conv_out", "out_conv"),
        norm=("norm", "bn"),
    ),
    Layout(
        "SAGAN",
        theta=("query_conv", "query"),
        phi=("key_conv", "key"),
        g=("value_conv", "value"),
        out=("out_conv", "out", "proj"),
        norm=("norm", "bn"),
        out_optional=True,
    ),
)


@dataclass(frozen=True)
class Names:
    """The foreign name of every part of one block."""

    layout: Layout
    parts: dict[str, str]
    """theta, phi, g and, where there is one, out"""
    norm: str | None
    gamma: str | None

    @property
    def pools_by_name(self) -> bool | None:
        """Whether max-pooling follows phi and g; None if the names do not say so."""
        if not self.layout.names_tell_pooling:
            return None
        return ".0" in self.parts["phi"]

    def ours(self, name: str) -> str | None:
        """Our name of a foreign parameter or buffer; None if it belongs to no part."""
        stems = {**self.parts, **({"norm": self.norm} if self.norm else {})}
        for part, stem in stems.items():
            if name.startswith(f"{stem}."):
                return part + name.removeprefix(stem)
        return "gamma" if name == self.gamma else None


def find_names(
    convolutions: Collection[str], others: Collection[str], tensors: Collection[str]
) -> Names | None:
    """The layout that a block's convolutions, other modules and tensors have, or None."""
    for layout in LAYOUTS:
        parts = {
            part: stem
            for part in PARTS
            if (stem := _first(getattr(layout, part), convolutions)) is not None
        }
        if all(part in parts for part in (EMBEDDINGS if layout.out_optional else PARTS)):
            return Names(layout, parts, _first(layout.norm, others), _first(GAMMAS, tensors))
    return None


def names_of_module(module: nn.Module) -> Names | None:
    """The layout of a module that may be a non-local block."""
    modules = dict(module.named_modules(remove_duplicate=False))
    convolutions = [name for name, child in modules.items() if isinstance(child, _ConvNd)]
    parameters = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    return find_names(convolutions, set(modules) - set(convolutions), parameters)


def names_of_state(state: Mapping[str, Tensor]) -> Names | None:
    """The layout of weights whose keys are relative to a block."""
    stems = {key: key.rpartition(".")[0] for key in state}
    convolutions = {
        stems[key] for key, value in state.items() if key.endswith(".weight") and value.dim() > 2
    }
    return find_names(convolutions, set(stems.values()) - convolutions, state)


def names_alike(module: nn.Module) -> list[str]:
    """The children that stand for theta, phi and g in some layout and contain convolutions."""
    children = dict(module.named_children())
    for layout in LAYOUTS:
        found = [
            name
            for part in EMBEDDINGS
            if (name := _first([s.partition(".")[0] for s in getattr(layout, part)], children))
            and any(isinstance(inner, _ConvNd) for inner in children[name].modules())
        ]
        if len(found) == len(EMBEDDINGS):
            return found
    return []


def adapt(
    weights: Mapping[str, Tensor], gamma: Tensor | None, normed: bool, factor: float = 1.0
) -> dict[str, Tensor]:
    """The weights of a block of ours that computes the same; tensors that fit stay as they are.

    - no out: out is the identity
    - g wider than theta and phi, or narrower: zero channels are added to the narrower ones. They
      get no gradient, because what they are multiplied with is zero too.
    - z = x + gamma * branch: gamma is multiplied into the norm, or without one into out
    - `factor`: multiplied into out's weights, where it reaches y alone
    """
    new = dict(weights)
    theta, g = weights["theta.weight"], weights["g.weight"]
    width, channels = max(len(theta), len(g)), theta.shape[1]
    check_shapes(weights)
    if "out.weight" not in new:
        identity = torch.eye(channels, len(g), dtype=g.dtype, device=g.device)
        new["out.weight"] = identity.view(*identity.shape, *g.shape[2:])
    for name in (f"{part}.{kind}" for part in EMBEDDINGS for kind in ("weight", "bias")):
        if name in new and len(new[name]) < width:
            new[name] = _padded(new[name], width)
    if new["out.weight"].shape[1] < width:
        columns = new["out.weight"].transpose(0, 1)
        new["out.weight"] = _padded(columns, width).transpose(0, 1).contiguous()
    if factor != 1:
        new["out.weight"] = new["out.weight"] * factor
    if gamma is not None:
        for name in _scaled_by_gamma(new, normed):
            shape = (-1, *[1] * (new[name].dim() - 1))
            new[name] = new[name] * gamma.to(new[name]).reshape(shape)
    return new


def check_shapes(weights: Mapping[str, Tensor]) -> None:
    """Raise unless the four convolutions can belong to one block."""
    theta, phi, g = (weights[f"{part}.weight"].shape for part in EMBEDDINGS)
    out = weights["out.weight"].shape if "out.weight" in weights else (g[0], g[0])
    if theta[:2] != phi[:2]:
        raise ConversionError(f"has theta of {theta[0]} channels but phi of {phi[0]}")
    if theta[1] != g[1] or out[:2] != (theta[1], g[0]):
        raise ConversionError(
            f"has theta of {theta[1]} to {theta[0]} channels, g of {g[1]} to {g[0]} and an output "
            f"of {out[1]} to {out[0]}, which do not belong to one map"
        )


def _scaled_by_gamma(weights: Mapping[str, Tensor], normed: bool) -> Iterator[str]:
    last = "norm" if normed else "out"
    if f"{last}.weight" not in weights:
        raise ConversionError("multiplies a norm without weights by gamma, which has no place then")
    return (name for name in (f"{last}.weight", f"{last}.bias") if name in weights)


def _padded(rows: Tensor, length: int) -> Tensor:
    return torch.cat([rows, rows.new_zeros(length - len(rows), *rows.shape[1:])])


def _first(names: Collection[str], existing: Collection[str]) -> str | None:
    return next((name for name in names if name in existing), None)
