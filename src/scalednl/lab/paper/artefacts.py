"""Every table and figure of the paper as a grid of trainings, and the controls that it lacks."""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from scalednl.errors import UsageError
from scalednl.lab.paper.evidence import evidence_lines
from scalednl.lab.paper.grids import NETWORKS, Artefact, Cell, OwnAttention, paper_setting
from scalednl.lab.paper.scales import PaperSetting
from scalednl.lab.paper.selection import by_prefix
from scalednl.lab.paper.tables import BLOCKS, TablePlace, content, printed_means
from scalednl.lab.recipes import CIFAR, PLAIN, TINY
from scalednl.options import suggestion

SHARES = (1, 2, 4, 8)
"""Figure 2's axis, whose values the paper does not print: C / share embedding channels"""


def artefacts(own: tuple[OwnAttention, ...] = ()) -> dict[str, Artefact]:
    """All tables and figures by name, in the paper's order, the controls last.

    `own` are attentions of a user's own that stand beside those of the paper.
    """
    known = _artefacts()
    return {name: table.with_own(own) for name, table in known.items()} if own else known


@cache
def _artefacts() -> dict[str, Artefact]:
    return {
        artefact.name: artefact.with_marks()
        for artefact in (
            *(_table1(), _table2(), _table3(), _table4(), _figure1(), _figure2()),
            *_controls(),
        )
    }


def find_artefacts(names: list[str], own: tuple[OwnAttention, ...] = ()) -> list[Artefact]:
    """The tables and figures that are named, in full or by a unique beginning, each once.

    "all" is every table, figure and control, "controls" what the paper lacks, "evidence" the
    declared plan of `paper.evidence`, line by line.
    """
    lines = {line.artefact.name: line.artefact for line in evidence_lines()}
    known = artefacts(own) | lines
    groups = {
        "all": list(artefacts()),
        "controls": [name for name in artefacts() if known[name].is_control],
        "evidence": list(lines),
    }
    found: dict[str, Artefact] = {}
    for asked in names:
        name = by_prefix(asked, [*groups, *known])
        if name is None:
            there = f"; use one of {', '.join([*artefacts(), *groups])}"
            short = (one.partition("_")[0] for one in artefacts() if not known[one].is_control)
            hint = suggestion(asked, [*known, *groups, *short]) or there
            raise UsageError(f"no table or figure is called {asked!r}{hint}")
        found |= {member: known[member] for member in groups.get(name, [name])}
    return list(found.values())


def _table(
    name: str, title: str, caption: str, setting: Callable[[TablePlace], PaperSetting]
) -> Artefact:
    """A table of printed errors; `setting` is what trains the one at a place."""
    cells = (
        Cell(at.row, at.column, setting(at), mean.error) for at, mean in printed_means(name).items()
    )
    return Artefact(name, title, caption, tuple(cells))


def _table1() -> Artefact:
    def setting(at: TablePlace) -> PaperSetting:
        view: dict[str, Any] = {} if at.column == "base" else {"view": at.column}
        return paper_setting(at.data, at.row, **view)

    return _table(
        "table1_importance",
        "Table 1. What attention needs of its vectors",
        "Test error (%) with complete theta and phi, with their magnitudes only, and with their "
        "directions only. One head (inferred).",
        setting,
    )


def _table2() -> Artefact:
    inits = {"he": "he", "std=0.01": 0.01, "std=0.0": 0.0}

    def setting(at: TablePlace) -> PaperSetting:
        return paper_setting(at.data, at.row, NETWORKS[at.model], init=inits[at.column])

    return _table(
        "table2_initialization",
        "Table 2. How the embeddings start",
        "Test error (%) by the initialisation of theta, phi, g and out. One head (inferred). "
        "All zero is a block that never learns, so both rows of that column are the network with "
        "the position encoding alone.",
        setting,
    )


def _table3() -> Artefact:
    def setting(at: TablePlace) -> PaperSetting:
        heads = int(at.column.split()[0])
        return paper_setting(at.data, at.row if heads else PLAIN, heads=heads or 1)

    return _table(
        "table3_heads",
        "Table 3. How many heads",
        "Test error (%) by the number of heads; 0 is the network without blocks. What heads cost "
        "is shown under Cost.",
        setting,
    )


def _table4() -> Artefact:
    def setting(at: TablePlace) -> PaperSetting:
        return paper_setting(at.data, at.column, NETWORKS[at.model], heads=4)

    return _table(
        "table4_backbones",
        "Table 4. Other networks and data",
        "Test error (%) of networks with three blocks of four heads; miniatures on pairs have "
        "one block.",
        setting,
    )


def _figure1() -> Artefact:
    places = [(data, "preresnet56") for data in CIFAR] + [(TINY, "preresnet50_tiny")]
    cells = [
        Cell("maps", attention, paper_setting(data, attention, network, heads=4))
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
        shows_maps=True,
    )


def _figure2() -> Artefact:
    cells = [
        Cell(
            attention,
            "C" if share == 1 else f"C/{share}",
            paper_setting(data, attention, embed_share=share),
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


def _controls() -> tuple[Artefact, ...]:
    """The grids of `controls.json`, each with the same cells on all of its data sets."""
    entries = msgspec.json.decode(content("controls.json"), type=list[dict[str, Any]])
    return tuple(_control(**entry) for entry in entries)


def _control(
    name: str, title: str, caption: str, data: list[str], cells: list[dict[str, Any]]
) -> Artefact:
    def cell(data: str, row: str, column: str, **values: Any) -> Cell:
        return Cell(row, column, paper_setting(data, **values))

    made = tuple(cell(place, **values) for place in data for values in cells)
    return Artefact(name, title, caption, made, is_control=True)
