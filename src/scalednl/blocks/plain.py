"""Modules whose parameters may be read instead of calling them."""

from torch import nn
from torch.nn.modules.conv import _ConvNd

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def is_stock(module: nn.Module, kinds: tuple[type[nn.Module], ...]) -> bool:
    """Whether a module does what its class says and nothing else: no subclass, patch or hook."""
    return (
        type(module) in kinds
        and "forward" not in module.__dict__
        and not (
            module._forward_hooks
            or module._forward_pre_hooks
            or module._backward_hooks
            or module._backward_pre_hooks
        )
    )


def is_pointwise(module: nn.Module, inputs: int, outputs: int) -> bool:
    """Whether a module is a stock 1x1 convolution of these widths: one matrix at every pixel."""
    if not is_stock(module, CONVOLUTIONS):
        return False
    assert isinstance(module, _ConvNd)
    return (
        (module.in_channels, module.out_channels, module.groups) == (inputs, outputs, 1)
        and all(size == 1 for size in (*module.kernel_size, *module.stride))
        and module.padding in ((0,), (0, 0), (0, 0, 0), "valid", "same")
    )
