"""Every table and figure of the paper as a grid of trainings, and the controls that it lacks."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache

from scalednl.config import Experiment
from scalednl.errors import UsageError
from scalednl.paper.inferred import inferred_cell, inferred_figure
from scalednl.paper.scales import TINY, Scale, Setting
from scalednl.paper.tables import printed

CIFAR = ("cifar10", "cifar100")
BLOCKS = ("softmax", "scaled")
NETWORKS = {
    "PreResNet32": "preresnet32",
    "PreResNet56": "preresnet56",
    "PreResNet110": "preresnet110",
    "WRN-28-10": "wrn28_10",
    "PreResNet50": "preresnet50_tiny",
}
SHARES = (1, 2, 4, 8)
"""Figure 2's axis, whose values the paper does not print: C / share embedding channels"""


@dataclass(frozen=True)
class Cell:
    """One number of a table: where it stands, what trains it, and what the paper prints."""

    row: str
    """The attention, or what else tells rows of one data set and network apart"""
    column: str
    setting: Setting
    printed: float | None = None
    inferred: str = ""
    """Which part of the setting the paper does not print, and what it was inferred from"""


@dataclass(frozen=True)
class Artefact:
    """A table or figure."""

    name: str
    title: str
    caption: str
    cells: tuple[Cell, ...]
    is_control: bool = False
    """Not in the paper"""
    inferred: str = ""
    """As of a cell, where it applies to all of them"""
    seeds: int | None = None
    """Of every cell; None: as many as the scale has"""
    first_seeds: int | None = None
    """So many seeds of all cells come first, then the others, then the next grid; None: the first
    seeds of all grids come before the second ones"""

    def with_marks(self) -> "Artefact":
        """The same with its inferred settings named."""
        cells = (replace(c, inferred=inferred_cell(self.name, c.setting)) for c in self.cells)
        return replace(self, inferred=inferred_figure(self.name), cells=tuple(cells))

    @property
    def columns(self) -> tuple[str, ...]:
        """In the order of their first cells."""
        return tuple(dict.fromkeys(cell.column for cell in self.cells))

    def trainings(self, scale: Scale) -> list[tuple[Cell, Experiment]]:
        """The cells that exist at a scale, each with its experiment at seed 0."""
        placed = ((cell, scale.experiment(cell.setting)) for cell in self.cells)
        return [(cell, experiment) for cell, experiment in placed if experiment is not None]


@cache
def artefacts() -> dict[str, Artefact]:
    """All of them by name, in the paper's order, the controls last."""
    return {
        artefact.name: artefact.with_marks()
        for artefact in (
            *(_table1(), _table2(), _table3(), _table4(), _figure1(), _figure2()),
            *(_position(), _softmax_scale(), _direction(), _no_scale(), _gamma(), _depth()),
        )
    }


def find_artefacts(names: list[str]) -> list[Artefact]:
    """Those named, each once.

    "all" is every table, figure and control, "controls" what the paper lacks, "evidence" the
    declared plan of `paper.evidence`, line by line.
    """
    from scalednl.paper.evidence import evidence_lines

    lines = {line.artefact.name: line.artefact for line in evidence_lines()}
    known = artefacts() | lines
    groups = {
        "all": list(artefacts()),
        "controls": [name for name in artefacts() if known[name].is_control],
        "evidence": list(lines),
    }
    found: dict[str, Artefact] = {}
    for name in names:
        if name not in known and name not in groups:
            near = get_close_matches(name, [*known, *groups], n=3, cutoff=0.4)
            there = f"there are: {', '.join([*artefacts(), *groups])}"
            hint = f"did you mean {' or '.join(near)}?" if near else there
            raise UsageError(f"no table or figure is called {name!r}: {hint}")
        found |= {member: known[member] for member in groups.get(name, [name])}
    return list(found.values())


def cifar56(data: str, attention: str, **values: object) -> Setting:
    """Table 1's network; `values` are heads, embed_share, position, and options of the block."""
    fields = {k: values.pop(k) for k in ("heads", "embed_share", "position") if k in values}
    options = tuple(sorted(values.items()))
    return Setting(data, "preresnet56", attention, options=options, **fields)  # type: ignore[arg-type]


def _table1() -> Artefact:
    table = printed("table1_importance")
    cells = [
        Cell(
            row["attention"],
            view,
            cifar56(row["dataset"], row["attention"], **({} if view == "base" else {"view": view})),
            error,
        )
        for row in table["rows"]
        for view, error in zip(table["columns"], row["error"], strict=True)
    ]
    return Artefact(
        "table1_importance",
        "Table 1. What attention needs of its vectors",
        "Test error (%) with theta and phi whole, with their magnitudes only, and with their "
        "directions only. One head (inferred).",
        tuple(cells),
    )


def _table2() -> Artefact:
    table = printed("table2_initialization")
    inits = {"he": "he", "std=0.01": 0.01, "std=0.0": 0.0}
    cells = [
        Cell(
            row["attention"],
            column,
            Setting(
                row["dataset"],
                NETWORKS[row["model"]],
                row["attention"],
                options=(("init", inits[column]),),
            ),
            error,
        )
        for row in table["rows"]
        for column, error in zip(table["columns"], row["error"], strict=True)
    ]
    return Artefact(
        "table2_initialization",
        "Table 2. How the embeddings start",
        "Test error (%) by the initialisation of theta, phi, g and out. One head (inferred). "
        "All zero is a block that never learns, so both rows of that column are the network with "
        "the position encoding alone.",
        tuple(cells),
    )


def _table3() -> Artefact:
    table = printed("table3_heads")
    cells = [
        Cell(
            attention,
            f"{heads} heads" if heads != 1 else "1 head",
            cifar56(data, attention if heads else "plain", heads=heads or 1),
            error,
        )
        for data in CIFAR
        for attention in BLOCKS
        for heads, error in zip(table["heads"], table[attention][f"{data}_error"], strict=True)
    ]
    return Artefact(
        "table3_heads",
        "Table 3. How many heads",
        "Test error (%) by the number of heads; 0 is the network without blocks. What heads cost "
        "stands under Cost.",
        tuple(cells),
    )


def _table4() -> Artefact:
    table = printed("table4_backbones")
    cells = [
        Cell(
            "4 heads",
            attention,
            Setting(row["dataset"], NETWORKS[row["model"]], attention, heads=4),
            error,
        )
        for row in table["rows"]
        for attention, error in zip(table["columns"], row["error"], strict=True)
    ]
    return Artefact(
        "table4_backbones",
        "Table 4. Other networks and data",
        "Test error (%) of networks with three blocks of four heads; miniatures on pairs have "
        "one block.",
        tuple(cells),
    )


def _figure1() -> Artefact:
    places = [(data, "preresnet56") for data in CIFAR] + [(TINY, "preresnet50_tiny")]
    cells = [
        Cell("maps", attention, Setting(data, network, attention, heads=4))
        for data, network in places
        for attention in BLOCKS
    ]
    return Artefact(
        "figure1_attention_maps",
        "Figure 1. Attention maps",
        "Every row is a query pixel, every column a key pixel. The paper sees vertical lines with "
        "softmax, few keys that every query attends to, and none without. The table has the test "
        "error (%) of the runs whose maps are looked at.",
        tuple(cells),
    )


def _figure2() -> Artefact:
    cells = [
        Cell(
            attention,
            "C" if share == 1 else f"C/{share}",
            cifar56(data, attention, embed_share=share),
        )
        for data in CIFAR
        for attention in BLOCKS
        for share in SHARES
    ]
    return Artefact(
        "figure2_embedding_channels",
        "Figure 2. Fewer embedding channels",
        "Test error (%) as the embedding shrinks from the block's C channels. One head (inferred). "
        "The paper prints a curve without values.",
        tuple(cells),
    )


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
                yield Cell("4 heads", attention, Setting("cifar10", network, attention, heads=4))

    return _control(
        "control_depth",
        "Control. Depth, all else equal",
        "Test error (%) of networks of three depths that were trained alike.",
        cells(),
    )
