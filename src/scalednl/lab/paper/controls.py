"""Controls that the paper lacks, each a grid of trainings."""

from collections.abc import Iterator

from scalednl.lab.paper.grids import BLOCKS, Artefact, Cell, cifar56
from scalednl.lab.paper.scales import PaperSetting
from scalednl.lab.recipes import CIFAR


def controls() -> tuple[Artefact, ...]:
    """All of them."""
    return (_position(), _softmax_scale(), _direction(), _no_scale(), _gamma(), _depth())


def _control(name: str, title: str, caption: str, cells: Iterator[Cell]) -> Artefact:
    return Artefact(name, title, caption, tuple(cells), is_control=True)


def _position() -> Artefact:
    def cells() -> Iterator[Cell]:
        for data in CIFAR:
            for attention in BLOCKS:
                yield Cell(attention, "blocks + position", cifar56(data, attention, heads=4))
                off = cifar56(data, attention, heads=4, position=False)
                yield Cell(attention, "blocks only", off)
            yield Cell("plain", "position only", cifar56(data, "plain", position=True))
            yield Cell("plain", "neither", cifar56(data, "plain"))

    return _control(
        "control_position",
        "Control. Is it the position?",
        "Test error (%) with and without the fixed position encoding, which the authors' release "
        "adds before the blocks and the paper does not mention.",
        cells(),
    )


def _softmax_scale() -> Artefact:
    def cells() -> Iterator[Cell]:
        for data in CIFAR:
            yield Cell("softmax", "with 1/sqrt(C)", cifar56(data, "softmax"))
            yield Cell("softmax", "without", cifar56(data, "softmax", softmax_scale=1.0))

    return _control(
        "control_softmax_scale",
        "Control. Softmax with and without 1/sqrt(C)",
        "Test error (%) with the printed factor, and without one as in the authors' release.",
        cells(),
    )


def _direction() -> Artefact:
    def cells() -> Iterator[Cell]:
        for data in CIFAR:
            yield Cell("softmax", "both", cifar56(data, "softmax"))
            for column, scale in (
                ("direction, 1/sqrt(d)", None),
                ("direction, 1", 1.0),
                ("direction, learned", "learned"),
            ):
                extra = {} if scale is None else {"softmax_scale": scale}
                yield Cell("softmax", column, cifar56(data, "softmax", view="direction", **extra))

    return _control(
        "control_direction_softmax",
        "Control. Direction-only softmax, given a temperature",
        "Test error (%). Unit vectors bound the logits, so softmax over directions is nearly flat "
        "at the printed factor: its loss there may come from that and not from softmax.",
        cells(),
    )


def _no_scale() -> Artefact:
    def cells() -> Iterator[Cell]:
        for data in CIFAR:
            yield Cell("scaled", "with 1/sqrt(HW)", cifar56(data, "scaled"))
            yield Cell("scaled", "without", cifar56(data, "scaled", scale=False))

    return _control(
        "control_no_scale",
        "Control. No scaling factor",
        "Test error (%) with and without 1/sqrt(HW), without which the paper says that training "
        "often diverges.",
        cells(),
    )


def _gamma() -> Artefact:
    def cells() -> Iterator[Cell]:
        for data in CIFAR:
            for attention in BLOCKS:
                for value in (0.0, 1.0):
                    setting = cifar56(data, attention, heads=4, norm_init=value)
                    yield Cell(attention, f"starts at {value:g}", setting)

    return _control(
        "control_gamma",
        "Control. Where the blocks' batch norm starts",
        "Test error (%). At 0, as in the authors' release, a new block is the identity; at 1 it "
        "takes part from the first step.",
        cells(),
    )


def _depth() -> Artefact:
    def cells() -> Iterator[Cell]:
        for network in ("preresnet8", "preresnet20", "preresnet32-short"):
            for attention in BLOCKS:
                yield Cell(
                    "4 heads", attention, PaperSetting("cifar10", network, attention, heads=4)
                )

    return _control(
        "control_depth",
        "Control. Depth, all else equal",
        "Test error (%) of networks of three depths that were trained alike.",
        cells(),
    )
