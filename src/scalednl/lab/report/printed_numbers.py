"""What the paper's own numbers can carry: its differences with error bars, for page and files."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from scalednl.lab.charts import Dot, Row, dot_chart
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.grids import Artefact
from scalednl.lab.paper.printed_contrasts import (
    ASSUMED_SD,
    DesignPower,
    PositionShare,
    PrintedContrast,
    design_powers,
    position_shares,
    printed_contrasts,
)
from scalednl.lab.paper.printed_noise import (
    MULTIPLE,
    Placebo,
    PrintedSum,
    left_out_range,
    noise,
    noise_factor,
    pair_of_means,
    placebos,
)
from scalednl.lab.paper.provenance import Contradiction, PaperChoice, provenance
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.recipes import CIFAR, TINY
from scalednl.lab.report.formatting import data_words, minus

CHART_START = -0.25
"""Left end of the chart's axes, in points"""


@dataclass(frozen=True)
class NoiseNumbers:
    """The noise of one run and of a difference of two printed means, with chi-square intervals."""

    placebos: int
    seeds: int
    run_sd: float
    run_sd_interval: tuple[float, float]
    difference: float
    difference_interval: tuple[float, float]
    difference_one_placebo_left_out: tuple[float, ...]
    """Smallest and largest; empty with one placebo"""


@dataclass(frozen=True)
class ContrastRow:
    """A claimed difference, with a cell for each data set that has it."""

    table: str
    name: str
    claimed: str
    cells: dict[str, PrintedContrast]


@dataclass(frozen=True)
class ContrastCounts:
    """How many differences are claimed to be above 0, and what becomes of them."""

    claimed: int
    larger: int
    same: int
    larger_but_p_above_5_percent: int
    larger_but_not_at_assumed_sd: int


@dataclass(frozen=True)
class PrintedNumbers:
    """What the paper's printed numbers can carry."""

    multiple: float
    noise: dict[str, NoiseNumbers]
    assumed_run_sd: dict[str, float]
    placebos: tuple[Placebo, ...]
    position: tuple[PositionShare, ...]
    contrasts: tuple[ContrastRow, ...]
    counts: ContrastCounts
    power: tuple[DesignPower, ...]
    contradictions: tuple[Contradiction, ...]
    provenance: tuple[PaperChoice, ...]
    chart: str
    narrow: str
    """The chart for phones"""


@cache
def printed_numbers() -> PrintedNumbers:
    """Noise, placebos, contrasts, power and contradictions of the printed tables."""
    rows = _rows()
    return PrintedNumbers(
        multiple=MULTIPLE,
        noise={"cifar": _noise(CIFAR[0]), TINY: _noise(TINY)},
        assumed_run_sd=ASSUMED_SD,
        placebos=placebos(),
        position=position_shares(),
        contrasts=rows,
        counts=_counts(),
        power=design_powers(),
        contradictions=tuple(provenance().contradictions),
        provenance=tuple(provenance().choices),
        chart=_chart(rows),
        narrow=_chart(rows, narrow=True),
    )


def noise_caption(artefact: Artefact) -> str:
    """The error bar of a printed table's differences in a sentence; "" where nothing is printed."""
    data_sets = {cell.setting.data for cell in artefact.cells if cell.printed is not None}
    bars = [
        f"± {MULTIPLE * _noise(members[0]).difference:.2f} points ({words})"
        for members, words in ((CIFAR, "CIFAR"), ((TINY,), data_words(TINY)))
        if data_sets & set(members)
    ]
    if not bars:
        return ""
    return (
        f"A difference of two printed numbers carries {' or '.join(bars)}: {MULTIPLE:g} × the "
        "noise of the paper's own placebos."
    )


def _noise(data: str) -> NoiseNumbers:
    found, paper = noise(data), SCALES["paper"]
    seeds = paper.tiny_seeds if data == TINY else paper.seeds
    factor = noise_factor(pair_of_means(seeds))
    low, high = found.interval
    return NoiseNumbers(
        *(found.placebos, seeds, found.run_sd, (low, high), found.run_sd * factor),
        (low * factor, high * factor),
        tuple(sd * factor for sd in left_out_range()) if data in CIFAR else (),
    )


def _rows() -> tuple[ContrastRow, ...]:
    """One row per claimed difference, in the order of the tables."""
    rows: dict[tuple[str, str], ContrastRow] = {}
    for item in printed_contrasts():
        row = ContrastRow(item.table, item.name, item.claimed, {})
        rows.setdefault((item.table, item.name), row).cells[item.data] = item
    order = list(artefacts())
    return tuple(sorted(rows.values(), key=lambda row: order.index(row.table)))


def _counts() -> ContrastCounts:
    claimed = [item for item in printed_contrasts() if item.claimed == "above 0"]
    larger = [item for item in claimed if item.is_larger]
    return ContrastCounts(
        claimed=len(claimed),
        larger=len(larger),
        same=len(claimed) - len(larger),
        larger_but_p_above_5_percent=sum(item.p > 0.05 for item in larger),
        larger_but_not_at_assumed_sd=sum(
            item.assumed_noise is not None and abs(item.difference) <= MULTIPLE * item.assumed_noise
            for item in larger
        ),
    )


def _chart(contrasts: Sequence[ContrastRow], *, narrow: bool = False) -> str:
    """Differences on the two CIFARs with bars of ±2 noise, the placebos above them."""
    rows = [Row("One training, printed twice (placebo)")]
    for name in dict.fromkeys(item.name for item in placebos()):
        found = {item.data: _dot(item, "purple") for item in placebos() if item.name == name}
        rows.append(Row(name, "purple", _columns(found)))
    heading = ""
    for row in contrasts:
        if not row.cells.keys() & set(CIFAR):
            continue
        if row.table != heading:
            heading = row.table
            rows.append(Row(artefacts()[heading].title))
        found = {
            data: _dot(item, "blue" if item.is_larger else "grey")
            for data, item in row.cells.items()
        }
        rows.append(Row(row.name, "blue", _columns(found)))
    return dot_chart(
        "Printed differences of test error, in points, with ±2 noise",
        [data_words(data) for data in CIFAR],
        rows,
        start=CHART_START,
        reference=0.0,
        names=305,
        foot="Blue triangle: larger than 2 × noise. Grey: not distinguishable from the placebo. "
        "Purple: placebo.",
        narrow=narrow,
    )


def _columns(dots: dict[str, Dot]) -> list[list[Dot]]:
    return [[dots[data]] if data in dots else [] for data in CIFAR]


def _dot(item: PrintedSum, colour: str) -> Dot:
    value, bar = item.difference, MULTIPLE * item.noise
    return Dot(value, minus(value), value - bar, value + bar, colour=colour)
