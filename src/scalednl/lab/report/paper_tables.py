"""The paper's tables and figures, printed values and ours side by side, at every scale there is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scalednl.lab.charts import Curve, Plot
from scalednl.lab.config import Experiment
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.grids import SCALED_ONLY, Artefact, Cell
from scalednl.lab.paper.scales import Scale
from scalednl.lab.recipes import PLAIN
from scalednl.lab.records.runs import Cells
from scalednl.lab.report.aggregate import (
    SOFTMAX,
    CellOutcome,
    describe_block,
    outcome,
    own_attentions_in,
    scales_of,
)
from scalednl.lab.report.curves import Figure, colour_of, error_figure, learning_curves
from scalednl.lab.report.formatting import data_words, network_words
from scalednl.lab.report.printed_numbers import noise_caption

MARKS = "†‡§¶"
"""Marks of inferred settings, in the order of their footnotes"""
FIGURE2 = "figure2_embedding_channels"


@dataclass(frozen=True)
class TableCell:
    """One number of the paper and ours."""

    printed: float | None
    """None too where a miniature has other images"""
    mark: str
    """The sign of a footnote, where part of its setting is inferred"""
    ours: CellOutcome | None
    trains: str
    """The blocks in words"""


@dataclass(frozen=True)
class TableRow:
    """One data set, network and kind of block."""

    data: str
    network: str
    row: str
    in_place_of_data: str | None
    """The paper's data set, where a miniature has another"""
    in_place_of_network: str | None
    cells: dict[str, TableCell | None]
    """By column"""


@dataclass(frozen=True)
class ScaleGroup:
    """The rows of one scale."""

    scale: str
    words: str
    has_ours: bool
    rows: tuple[TableRow, ...]
    trainings: int = 0
    """That the table has at this scale"""
    trained: int = 0
    """Those of them that have a result"""

    @property
    def part(self) -> str:
        """A sentence saying that this is a part of the table; "" if it is complete or not run."""
        if not self.has_ours or self.trained == self.trainings:
            return ""
        return (
            f"A part of the table at the scale {self.scale}: {self.trained} of {self.trainings} "
            "trainings have a result."
        )


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of the paper, or a control."""

    name: str
    title: str
    caption: str
    is_control: bool
    mark: str
    notes: dict[str, str]
    """By their marks: why part of a setting is called inferred"""
    columns: tuple[str, ...]
    has_printed: bool
    has_ours: bool
    groups: tuple[ScaleGroup, ...]
    noise: str
    """The error bar of its printed differences in a sentence"""
    curves: tuple[Figure, ...]
    """Learning curves"""
    charts: tuple[Figure, ...]
    """What the paper draws"""


def paper_table(artefact: Artefact, runs: Cells) -> PaperTable:
    """The table of an artefact, with our numbers."""
    notes = _notes(artefact)
    groups = tuple(
        group
        for scale in scales_of(runs)
        if (group := _group(artefact, scale, runs, notes)) is not None
    )
    return PaperTable(
        name=artefact.name,
        title=artefact.title,
        caption=artefact.caption,
        is_control=artefact.is_control,
        mark=notes.get(artefact.inferred, ""),
        notes={mark: reason for reason, mark in notes.items()},
        columns=tuple(artefact.columns),
        has_printed=any(cell.printed is not None for cell in artefact.cells),
        has_ours=any(group.has_ours for group in groups),
        groups=groups,
        noise=noise_caption(artefact),
        curves=tuple(learning_curves(artefact, runs)),
        charts=tuple(_figure2(artefact, groups) if artefact.name == FIGURE2 else ()),
    )


def cells_in_tables(runs: Cells) -> set[str]:
    """The cells that are in some table."""
    return {
        experiment.cell
        for scale in scales_of(runs)
        for artefact in artefacts(own_attentions_in(runs)).values()
        for _, experiment in artefact.trainings(scale)
    }


def _notes(artefact: Artefact) -> dict[str, str]:
    """Every reason why a setting of the artefact is called inferred, with its mark."""
    reasons = dict.fromkeys((artefact.inferred, *(cell.inferred for cell in artefact.cells)))
    reasons.pop("", None)
    return dict(zip(reasons, MARKS[: len(reasons)], strict=True))


def _group(
    artefact: Artefact, scale: Scale, runs: Cells, notes: dict[str, str]
) -> ScaleGroup | None:
    """The rows of a scale; None without runs, unless it is the paper's, which has printed ones."""
    rows: dict[tuple[str, str, str], TableRow] = {}
    trained: dict[str, bool] = {}
    for cell, experiment in artefact.trainings(scale):
        place = (experiment.data, experiment.model, cell.row)
        row = rows.setdefault(place, _row(artefact, cell, experiment))
        softmax = _softmax(cell, scale)
        compared = () if softmax is None else runs.get(softmax.cell, ())
        ours = outcome(runs.get(experiment.cell, ()), compared)
        trained[experiment.cell] = ours is not None and ours.n + ours.diverged > 0
        mark = notes.get(cell.inferred, "")
        # Errors on other images are not to be compared with the paper's.
        printed = cell.printed if experiment.data == cell.setting.data else None
        row.cells[cell.column] = TableCell(printed, mark, ours, describe_block(experiment))
    run = [row for row in rows.values() if any(cell and cell.ours for cell in row.cells.values())]
    words = scale.words if scale.precision == "fp32" else f"{scale.words}; in {scale.precision}"
    is_paper = scale.label == "paper"
    if not run and not is_paper:
        return None
    shown = tuple(rows.values() if is_paper else run)
    return ScaleGroup(scale.label, words, bool(run), shown, len(trained), sum(trained.values()))


def _row(artefact: Artefact, cell: Cell, experiment: Experiment) -> TableRow:
    data, network = cell.setting.data, cell.setting.network
    return TableRow(
        *(experiment.data, experiment.model, cell.row),
        None if data == experiment.data else data_words(data),
        None if network == experiment.model else network_words(network),
        dict.fromkeys(artefact.columns),
    )


def _softmax(cell: Cell, scale: Scale) -> Experiment | None:
    """The training of the same cell with softmax blocks; None where these have no such option."""
    setting = cell.setting
    if setting.attention in (PLAIN, SOFTMAX) or not SCALED_ONLY.isdisjoint(dict(setting.options)):
        return None
    return scale.experiment(replace(setting, attention=SOFTMAX, code=""))


def _figure2(artefact: Artefact, groups: Sequence[ScaleGroup]) -> Iterator[Figure]:
    """Error over embedding channels, from the rows of the table; the band is one deviation."""
    columns = list(reversed(artefact.columns))
    ticks = [(float(at), name) for at, name in enumerate(columns)]
    for group in groups:
        places: dict[tuple[str, str], list[Curve]] = {}
        for row in group.rows:
            points, band = [], []
            for at, column in enumerate(columns):
                cell = row.cells.get(column)
                last = cell.ours.last if cell is not None and cell.ours is not None else None
                if last is not None:
                    spread = last.sd or 0.0
                    points.append((float(at), last.mean))
                    band.append((float(at), last.mean - spread, last.mean + spread))
            if points:
                curve = Curve(row.row, colour_of(row.row), points, band)
                places.setdefault((row.data, row.network), []).append(curve)
        for place, curves in places.items():
            yield error_figure(
                place, [Plot("", curves)], "embedding channels", scale=group.scale, x_ticks=ticks
            )
