"""How a block starts: the three initialisations of the paper's Table 2, and gamma = norm_init.

Tools that start a network on the meta device call `reset_parameters` of every module that has one,
parents before or after their children. So each convolution and norm carries a `reset_parameters`
of its own that starts it as the block does: a new block is the identity in whatever order.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

Module = TypeVar("Module", bound=nn.Module)


def start(module: Module, initialise: Callable[[Module], None]) -> None:
    """Initialise a module now, and again whenever its `reset_parameters` is called.

    The module keeps its class, which tools look up (quantisation, counters of operations).
    """
    module.reset_parameters = partial(initialise, module)  # type: ignore[assignment]
    initialise(module)


def reset_as_made(module: nn.Module) -> None:
    """Do what the constructor of the module's class does to its parameters."""
    if (reset := getattr(type(module), "reset_parameters", None)) is not None:
        reset(module)


def draw(conv: _ConvNd, init: str | float) -> None:
    """Draw the weight: Kaiming normal (fan out), or N(0, init); the bias is zero."""
    if init == "he":
        nn.init.kaiming_normal_(conv.weight, mode="fan_out")
    else:
        nn.init.normal_(conv.weight, std=float(init))
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)


def made_norm(
    norm_layer: Callable[[int], nn.Module], channels: int, norm: bool, gamma: float
) -> nn.Module:
    """The module that `norm_layer` makes; raise where it cannot start from gamma."""
    if not norm:
        raise ValueError("norm=False and norm_layer exclude each other: leave one of them out")
    if isinstance(norm_layer, nn.Module) or not callable(norm_layer):
        raise ValueError(
            "norm_layer must be a function of the channels that makes a norm, such as "
            f"torch.nn.SyncBatchNorm, but got {norm_layer!r}"
        )
    made = norm_layer(channels)
    if not isinstance(made, nn.Module):
        raise ValueError(f"norm_layer must return a module, but returned {made!r}")
    if gamma != 1 and not isinstance(getattr(made, "weight", None), Tensor):
        raise ValueError(
            f"norm_init={gamma} needs a norm with a weight, but norm_layer returned {made}: "
            "pass norm_init=1.0"
        )
    return made


def reset_norm(norm: nn.Module, gamma: float) -> None:
    """A new norm, but for its weight: gamma at every channel."""
    reset_as_made(norm)
    if isinstance(weight := getattr(norm, "weight", None), Tensor):
        nn.init.constant_(weight, gamma)


@torch.no_grad()
def reset_log(parameter: nn.Parameter, value: float) -> None:
    """Every number of the parameter is log(value)."""
    parameter.fill_(value).log_()
