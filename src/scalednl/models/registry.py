"""The networks that the paper names, built as in the authors' release (`scalednl.networks`)."""

from collections.abc import Callable
from functools import partial

from torch import nn

from scalednl.config import ModelConfig, StackConfig
from scalednl.models.residual import BasicBlock, Bottleneck, ResidualNetwork
from scalednl.networks import KNOWN, NetworkShape, network_shape
from scalednl.options import check_positive


def list_models() -> list[str]:
    """Names that `create_model` takes; the patterns of `networks` admit other depths and widths."""
    return sorted(KNOWN)


def create_model(
    name: str,
    num_classes: int = 10,
    blocks: StackConfig | None = None,
    position: bool | None = None,
    dropout: float = 0.0,
) -> ResidualNetwork:
    """A network that the paper names, with or without non-local blocks.

    Args:
        name: one of `list_models()`, or another depth or width by the same patterns.
        num_classes: outputs of the classifier.
        blocks: the stack of blocks; None or `count=0` is the plain network.
        position: the fixed encoding before the stack; None adds it where there are blocks. True
            without blocks is the position-only control.
        dropout: the share of numbers that is dropped in training between the two convolutions of
            every basic residual block, as in the paper of wide networks; the authors' release of
            ours has none.
    """
    check_positive("num_classes", num_classes)
    if not (blocks is None or isinstance(blocks, StackConfig)):
        raise ValueError(
            "blocks must be a scalednl.StackConfig, which says how many blocks and where, such as "
            f"StackConfig(BlockConfig(heads=4), count=3), but got a {type(blocks).__name__}"
        )
    config = ModelConfig(name, num_classes, blocks, position, dropout)
    shape = network_shape(name)
    kernel = shape.stem_kernel
    stem = nn.Conv2d(3, shape.stem_channels, kernel, padding=kernel // 2, bias=False)
    make_block = _residual_block(name, shape, dropout)
    network = ResidualNetwork(
        stem, make_block, shape.depths, shape.planes, num_classes, blocks, position
    )
    network.config = config
    return network


def _residual_block(
    name: str, shape: NetworkShape, dropout: float
) -> Callable[[int, int, int], BasicBlock | Bottleneck]:
    """What makes the residual blocks of a network; raises where they have no dropout."""
    if shape.block != "bottleneck":
        return partial(BasicBlock, shared_activation=shape.block == "wide", dropout=dropout)
    if dropout:
        raise ValueError(
            f"dropout={dropout!r} is for the two convolutions of basic residual blocks, but {name} "
            "has bottlenecks: use dropout=0.0, or a network such as preresnet32 or wrn28_10"
        )
    return Bottleneck
