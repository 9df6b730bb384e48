"""What the paper's own numbers can carry: its differences with error bars, for page and files."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from scalednl.lab.charts import Dot, Row, dot_chart
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.grids import Artefact
from scalednl.lab.paper.printed_contrasts import (
    ASSUMED_SD,
    LARGER,
    SAME,
    PrintedContrast,
    design_powers,
    position_shares,
    printed_contrasts,
)
from scalednl.lab.paper.printed_noise import (
    MULTIPLE,
    Placebo,
    left_out_range,
    noise,
    noise_factor,
    pair_of_means,
    placebos,
    total,
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
class PlaceboNumbers:
    """Two printed means of one training."""

    name: str
    data: str
    difference: float


@dataclass(frozen=True)
class Points:
    """A contrast of printed numbers, with its noise."""

    points: float
    noise: float


@dataclass(frozen=True)
class PositionNumbers:
    """How much of a printed gain is the position encoding's."""

    data: str
    attention: str
    gain: Points
    position: Points
    beyond: Points
    share: float


@dataclass(frozen=True)
class ContrastCell:
    """A claimed difference on one data set."""

    model: str
    difference: float
    noise: float
    assumed_noise: float | None
    p: float
    answer: str

    @property
    def is_larger(self) -> bool:
        """Whether it is larger than 2 x noise."""
        return self.answer == LARGER


@dataclass(frozen=True)
class ContrastRow:
    """A claimed difference, with a cell for each data set that has it."""

    table: str
    name: str
    claimed: str
    cells: dict[str, ContrastCell]


@dataclass(frozen=True)
class ContrastCounts:
    """How many differences are claimed to be above 0, and what becomes of them."""

    claimed: int
    larger: int
    same: int
    larger_but_p_above_5_percent: int
    larger_but_not_at_assumed_sd: int


@dataclass(frozen=True)
class PowerNumbers:
    """The power of the printed design on one gap between softmax and scaled blocks."""

    data: str
    heads: int
    gap: float
    run_sd: float
    printed_seeds: int
    power: float
    needed: int | None


@dataclass(frozen=True)
class PrintedNumbers:
    """What the paper's printed numbers can carry."""

    multiple: float
    noise: dict[str, NoiseNumbers]
    assumed_run_sd: dict[str, float]
    placebos: tuple[PlaceboNumbers, ...]
    position: tuple[PositionNumbers, ...]
    contrasts: tuple[ContrastRow, ...]
    counts: ContrastCounts
    power: tuple[PowerNumbers, ...]
    contradictions: tuple[Contradiction, ...]
    provenance: tuple[PaperChoice, ...]
    chart: str


@cache
def printed_numbers() -> PrintedNumbers:
    """Noise, placebos, contrasts, power and contradictions of the printed tables."""
    contrasts = printed_contrasts()
    return PrintedNumbers(
        multiple=MULTIPLE,
        noise={"cifar": _noise(CIFAR[0]), TINY: _noise(TINY)},
        assumed_run_sd=dict(ASSUMED_SD),
        placebos=tuple(PlaceboNumbers(one.name, one.data, one.difference) for one in placebos()),
        position=tuple(_position()),
        contrasts=tuple(_rows(contrasts)),
        counts=_counts(contrasts),
        power=tuple(
            PowerNumbers(
                *(one.data, one.heads, one.gap, one.run_sd, one.printed_seeds),
                *(one.power, one.needed),
            )
            for one in design_powers()
        ),
        contradictions=tuple(provenance().contradictions),
        provenance=tuple(provenance().choices),
        chart=_chart(contrasts),
    )


def noise_caption(artefact: Artefact) -> str:
    """The error bar of a printed table's differences in a sentence; "" where nothing is printed."""
    data_sets = {cell.setting.data for cell in artefact.cells if cell.printed is not None}
    bars = []
    for members, words in ((CIFAR, "CIFAR"), ((TINY,), data_words(TINY))):
        if data_sets & set(members):
            bar = MULTIPLE * noise(members[0]).of(pair_of_means(_seeds(members[0])))
            bars.append(f"± {bar:.2f} points ({words})")
    if not bars:
        return ""
    return (
        f"A difference of two printed numbers carries {' or '.join(bars)}: {MULTIPLE:g} × the "
        "noise of the paper's own placebos."
    )


def _seeds(data: str) -> int:
    paper = SCALES["paper"]
    return paper.tiny_seeds if data == TINY else paper.seeds


def _noise(data: str) -> NoiseNumbers:
    found, seeds = noise(data), _seeds(data)
    factor = noise_factor(pair_of_means(seeds))
    low, high = found.interval
    return NoiseNumbers(
        *(found.placebos, seeds, found.run_sd, (low, high), found.run_sd * factor),
        (low * factor, high * factor),
        tuple(sd * factor for sd in left_out_range()) if data in CIFAR else (),
    )


def _position() -> Iterator[PositionNumbers]:
    for item in position_shares():
        gain, position, beyond = (
            Points(total(terms), noise(item.data).of(terms))
            for terms in (item.gain, item.position, item.beyond)
        )
        yield PositionNumbers(item.data, item.attention, gain, position, beyond, item.share)


def _rows(contrasts: tuple[PrintedContrast, ...]) -> list[ContrastRow]:
    """One row per claimed difference, in the order of the tables."""
    rows: dict[tuple[str, str], ContrastRow] = {}
    for item in contrasts:
        row = rows.setdefault(
            (item.table, item.name), ContrastRow(item.table, item.name, item.claimed, {})
        )
        row.cells[item.data] = ContrastCell(
            *(item.model, item.difference, item.noise, item.assumed_noise, item.p, item.answer)
        )
    order = {name: index for index, name in enumerate(artefacts())}
    return sorted(rows.values(), key=lambda row: order[row.table])


def _counts(contrasts: tuple[PrintedContrast, ...]) -> ContrastCounts:
    claimed = [item for item in contrasts if item.claimed == "above 0"]
    larger = [item for item in claimed if item.answer == LARGER]
    return ContrastCounts(
        claimed=len(claimed),
        larger=len(larger),
        same=sum(item.answer == SAME for item in claimed),
        larger_but_p_above_5_percent=sum(item.p > 0.05 for item in larger),
        larger_but_not_at_assumed_sd=sum(
            item.assumed_noise is not None and abs(item.difference) <= MULTIPLE * item.assumed_noise
            for item in larger
        ),
    )


def _chart(contrasts: tuple[PrintedContrast, ...]) -> str:
    """Differences on the two CIFARs with bars of ±2 noise, the placebos above them."""
    rows = [Row("One training, printed twice (placebo)")]
    for name in dict.fromkeys(item.name for item in placebos()):
        at = {item.data: item for item in placebos() if item.name == name}
        columns = [[_dot(at[data], "purple")] if data in at else [] for data in CIFAR]
        rows.append(Row(name, "purple", columns))
    heading = ""
    for row in _rows(contrasts):
        found = {c.data: c for c in contrasts if (c.table, c.name) == (row.table, row.name)}
        if not found.keys() & set(CIFAR):
            continue
        if row.table != heading:
            heading = row.table
            rows.append(Row(artefacts()[heading].title))
        columns = [
            [_dot(found[data], "blue" if found[data].answer == LARGER else "grey")]
            if data in found
            else []
            for data in CIFAR
        ]
        rows.append(Row(row.name, "blue", columns))
    return dot_chart(
        "Printed differences of test error, in points, with ±2 noise",
        [data_words(data) for data in CIFAR],
        rows,
        start=CHART_START,
        reference=0.0,
        names=305,
        foot="Blue triangle: larger than 2 × noise. Grey: not distinguishable from the placebo. "
        "Purple: placebo.",
    )


def _dot(item: PrintedContrast | Placebo, colour: str) -> Dot:
    bar = MULTIPLE * noise(item.data).of(item.terms)
    value = item.difference
    return Dot(value, minus(value), value - bar, value + bar, colour=colour)
