"""Controls that the paper lacks, each a grid of trainings."""

from collections.abc import Iterable
from typing import Any

from scalednl.lab.paper.grids import Artefact, Cell, cifar56
from scalednl.lab.paper.scales import PaperSetting
from scalednl.lab.paper.tables import BLOCKS
from scalednl.lab.recipes import CIFAR

Trained = tuple[str, str, dict[str, Any]]
"""Row, which is the attention, column, and the options of `cifar56`"""

POSITION: tuple[Trained, ...] = (
    ("softmax", "blocks + position", {"heads": 4}),
    ("softmax", "blocks only", {"heads": 4, "position": False}),
    ("scaled", "blocks + position", {"heads": 4}),
    ("scaled", "blocks only", {"heads": 4, "position": False}),
    ("plain", "position only", {"position": True}),
    ("plain", "neither", {}),
)
SOFTMAX_SCALE: tuple[Trained, ...] = (
    ("softmax", "with 1/sqrt(C)", {}),
    ("softmax", "without", {"softmax_scale": 1.0}),
)
DIRECTION: tuple[Trained, ...] = (
    ("softmax", "both", {}),
    ("softmax", "direction, 1/sqrt(d)", {"view": "direction"}),
    ("softmax", "direction, 1", {"view": "direction", "softmax_scale": 1.0}),
    ("softmax", "direction, learned", {"view": "direction", "softmax_scale": "learned"}),
)
NO_SCALE: tuple[Trained, ...] = (
    ("scaled", "with 1/sqrt(HW)", {}),
    ("scaled", "without", {"scale": False}),
)
GAMMA: tuple[Trained, ...] = tuple(
    (attention, f"starts at {value:g}", {"heads": 4, "norm_init": value})
    for attention in BLOCKS
    for value in (0.0, 1.0)
)


def controls() -> tuple[Artefact, ...]:
    """All of them."""
    return (
        _control(
            "control_position",
            "Control. Is it the position?",
            "Test error (%) with and without the fixed position encoding, which the authors' "
            "release adds before the blocks and the paper does not mention.",
            _cifar(POSITION),
        ),
        _control(
            "control_softmax_scale",
            "Control. Softmax with and without 1/sqrt(C)",
            "Test error (%) with the printed factor, and without one as in the authors' release.",
            _cifar(SOFTMAX_SCALE),
        ),
        _control(
            "control_direction_softmax",
            "Control. Direction-only softmax, given a temperature",
            "Test error (%). Unit vectors bound the logits, so softmax over directions is nearly "
            "flat at the printed factor: its loss there may come from that and not from softmax.",
            _cifar(DIRECTION),
        ),
        _control(
            "control_no_scale",
            "Control. No scaling factor",
            "Test error (%) with and without 1/sqrt(HW), without which the paper says that "
            "training often diverges.",
            _cifar(NO_SCALE),
        ),
        _control(
            "control_gamma",
            "Control. Where the blocks' batch norm starts",
            "Test error (%). At 0, as in the authors' release, a new block is the identity; at 1 "
            "it takes part from the first step.",
            _cifar(GAMMA),
        ),
        _control(
            "control_depth",
            "Control. Depth, all else equal",
            "Test error (%) of networks of three depths that were trained alike.",
            (
                Cell("4 heads", name, PaperSetting("cifar10", network, name, heads=4))
                for network in ("preresnet8", "preresnet20", "preresnet32-short")
                for name in BLOCKS
            ),
        ),
    )


def _control(name: str, title: str, caption: str, cells: Iterable[Cell]) -> Artefact:
    return Artefact(name, title, caption, tuple(cells), is_control=True)


def _cifar(trained: Iterable[Trained]) -> Iterable[Cell]:
    """The trainings on both CIFARs."""
    return [
        Cell(attention, column, cifar56(data, attention, **options))
        for data in CIFAR
        for attention, column, options in trained
    ]
