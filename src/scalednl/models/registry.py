"""The networks that the paper names, built as in the authors' release (`scalednl.networks`)."""

from collections.abc import Callable
from functools import partial

from torch import nn

from scalednl.config import ModelConfig, StackConfig
from scalednl.models.residual import BasicBlock, Bottleneck, ResidualNetwork
from scalednl.networks import KNOWN, network_shape
from scalednl.options import check_positive

BLOCKS: dict[str, Callable[[int, int, int], BasicBlock | Bottleneck]] = {
    "basic": BasicBlock,
    "bottleneck": Bottleneck,
    "wide": partial(BasicBlock, shared_activation=True),
}


def list_models() -> list[str]:
    """Names that `create_model` takes; the patterns of `networks` admit other depths and widths."""
    return sorted(KNOWN)


def create_model(
    name: str,
    num_classes: int = 10,
    blocks: StackConfig | None = None,
    position: bool | None = None,
) -> ResidualNetwork:
    """A network that the paper names, with or without non-local blocks.

    Args:
        name: one of `list_models()`, or another depth or width by the same patterns.
        num_classes: outputs of the classifier.
        blocks: the stack of blocks; None or `count=0` is the plain network.
        position: the fixed encoding before the stack; None adds it where there are blocks. True
            without blocks is the position-only control.
    """
    check_positive("num_classes", num_classes)
    shape = network_shape(name)
    kernel = shape.stem_kernel
    stem = nn.Conv2d(3, shape.stem_channels, kernel, padding=kernel // 2, bias=False)
    network = ResidualNetwork(
        stem, BLOCKS[shape.block], shape.depths, shape.planes, num_classes, blocks, position
    )
    network.config = ModelConfig(name, num_classes, blocks, position)
    return network
