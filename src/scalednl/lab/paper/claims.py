"""What the paper claims, each as a contrast between trainings of the same seed.

A claim has a row for each data set and network that it is made on. Its kind says which rule of
`paper.answers` judges it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from scalednl.lab.config import Experiment
from scalednl.lab.paper.answers import Kind
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.grids import BLOCKS, Artefact, cifar56
from scalednl.lab.paper.rules import PRIMARY
from scalednl.lab.paper.scales import PaperSetting, Scale
from scalednl.lab.recipes import CIFAR

DIVERGED = "diverged"
"""The quantity of claims that count divergences"""


@dataclass(frozen=True)
class Term:
    """One training's part in a contrast."""

    weight: int
    setting: PaperSetting
    quantity: str = "error"
    """"error" is the last epoch's test error in percent; other names are scores of attention"""


Row = tuple[Term, ...]


@dataclass(frozen=True)
class Claim:
    """sum of weight * quantity, seed by seed, in one or more rows."""

    name: str
    says: str
    """In the paper's sense, in a sentence"""
    kind: Kind
    artefact: str
    """The table or figure that has its trainings"""
    rows: tuple[Row, ...]
    is_ours: bool = False
    """A question of this project, not a claim of the paper"""

    @property
    def is_primary(self) -> bool:
        """Whether its verdict is corrected for the number of claims."""
        return self.name in PRIMARY

    @property
    def quantity(self) -> str:
        """What is contrasted."""
        return self.rows[0][0].quantity

    def is_testable(self, scale: Scale) -> bool:
        """Whether a scale can test it; "everywhere" needs two places."""
        return len(self.distinct_rows(scale)) >= (2 if self.kind == "always" else 1)

    def distinct_rows(self, scale: Scale) -> set[tuple[str, ...]]:
        """The cells of the rows that exist at a scale; rows with the same trainings are one."""
        return {tuple(one.cell for one in experiments) for _, experiments in self.at(scale)}

    def at(self, scale: Scale) -> Iterator[tuple[Row, tuple[Experiment, ...]]]:
        """The rows whose trainings all exist at a scale, with these."""
        for terms in self.rows:
            placed = [scale.experiment(term.setting) for term in terms]
            experiments = tuple(one for one in placed if one is not None)
            if len(experiments) == len(terms):
                yield terms, experiments


@cache
def claims() -> tuple[Claim, ...]:
    """All of them, in the paper's order; questions of this project last."""
    return (
        *_importance(),
        *_initialisation(),
        *_heads(),
        *_backbones(),
        *_maps(),
        *_channels(),
        *_divergence(),
        *_ours(),
    )


def main_claims(scale: Scale) -> list[str]:
    """The claims over which a scale's verdicts are corrected."""
    return [claim.name for claim in claims() if claim.is_primary and claim.is_testable(scale)]


@cache
def _rows(name: str) -> tuple[dict[tuple[str, str], PaperSetting], ...]:
    """For each data set and network of a table: (row, column) -> its setting."""
    groups: dict[tuple[str, str], dict[tuple[str, str], PaperSetting]] = {}
    for cell in _table(name).cells:
        place = cell.setting.data, cell.setting.network
        groups.setdefault(place, {})[cell.row, cell.column] = cell.setting
    return tuple(groups.values())


def _table(name: str) -> Artefact:
    return artefacts()[name]


def _each(name: str, *terms: tuple[int, str, str], quantity: str = "error") -> tuple[Row, ...]:
    """The contrast of these (weight, row, column) in every data set and network of a table."""
    return tuple(
        tuple(Term(weight, at[row, column], quantity) for weight, row, column in terms)
        for at in _rows(name)
    )


def _importance() -> Iterator[Claim]:
    name = "table1_importance"
    base, magnitude, direction = "base", "magnitude", "direction"
    yield Claim(
        "softmax-directions-are-severely-worse",
        "With directions only, softmax blocks are severely worse than scaled blocks",
        "severe",
        name,
        _each(name, (1, "softmax", direction), (-1, "scaled", direction)),
    )
    yield Claim(
        "magnitudes-are-comparable",
        "With magnitudes only, scaled blocks are comparable with softmax blocks",
        "comparable",
        name,
        _each(name, (1, "scaled", magnitude), (-1, "softmax", magnitude)),
    )
    yield Claim(
        "scaled-makes-more-of-directions",
        "Left with directions only, softmax blocks lose more than scaled blocks do",
        "robust",
        name,
        _each(
            name,
            *((1, "softmax", direction), (-1, "softmax", base)),
            *((-1, "scaled", direction), (1, "scaled", base)),
        ),
    )
    yield Claim(
        "softmax-loses-without-magnitude",
        "Softmax blocks lose accuracy when magnitudes are removed",
        "better",
        name,
        _each(name, (1, "softmax", direction), (-1, "softmax", base)),
    )
    yield Claim(
        "softmax-needs-magnitude",
        "Softmax blocks lose more without magnitudes than without directions",
        "better",
        name,
        _each(name, (1, "softmax", direction), (-1, "softmax", magnitude)),
    )
    yield Claim(
        "scaled-uses-direction",
        "Scaled blocks lose more without directions than without magnitudes",
        "better",
        name,
        _each(name, (1, "scaled", magnitude), (-1, "scaled", direction)),
    )


def _initialisation() -> Iterator[Claim]:
    name = "table2_initialization"
    he, small, zero = "he", "std=0.01", "std=0.0"
    yield Claim(
        "softmax-needs-small-init",
        "Softmax blocks need the tuned initialisation: He's is worse than 0.01",
        "better",
        name,
        _each(name, (1, "softmax", he), (-1, "softmax", small)),
    )
    yield Claim(
        "scaled-likes-he",
        "Scaled blocks do best with He's initialisation, the standard one: better than 0.01",
        "better",
        name,
        _each(name, (1, "scaled", small), (-1, "scaled", he)),
    )
    yield Claim(
        "scaled-is-robust-to-init",
        "With the other initialisation (He's for softmax, 0.01 for scaled), softmax blocks lose "
        "more than scaled blocks do",
        "robust",
        name,
        _each(
            name,
            *((1, "softmax", he), (-1, "softmax", small)),
            *((-1, "scaled", small), (1, "scaled", he)),
        ),
    )
    for attention, best in (("softmax", small), ("scaled", he)):
        yield Claim(
            f"{attention}-zero-init-hurts",
            f"Zero initialisation is worse than the best one for {attention} blocks",
            "better",
            name,
            _each(name, (1, attention, zero), (-1, attention, best)),
        )


def _heads() -> Iterator[Claim]:
    name = "table3_heads"
    for heads in ("1 head", "2 heads"):
        yield Claim(
            f"scaled-beats-softmax-{heads.replace(' ', '-')}",
            f"With {heads}, scaled blocks give a lower error than softmax blocks",
            "better",
            name,
            _each(name, (1, "softmax", heads), (-1, "scaled", heads)),
        )
    for attention in BLOCKS:
        yield Claim(
            f"{attention}-blocks-help",
            f"{attention.capitalize()} blocks of 4 heads help, beyond the position encoding that "
            "comes with them",
            "better",
            "control_position",
            tuple(
                (
                    Term(1, cifar56(data, "plain", position=True)),
                    Term(-1, cifar56(data, attention, heads=4)),
                )
                for data in CIFAR
            ),
        )
        yield Claim(
            f"{attention}-heads-help",
            f"Four heads beat one, with {attention} blocks",
            "better",
            name,
            _each(name, (1, attention, "1 head"), (-1, attention, "4 heads")),
        )


def _backbones() -> Iterator[Claim]:
    name = "table4_backbones"
    rows = _each(name, (1, "4 heads", "softmax"), (-1, "4 heads", "scaled"))
    yield Claim(
        "scaled-beats-softmax",
        "Scaled blocks generally give a lower error than softmax blocks",
        "better",
        name,
        rows,
    )
    yield Claim(
        "scaled-always-beats-softmax",
        "Scaled blocks give a lower error on every data set and network",
        "always",
        name,
        rows,
    )


def _maps() -> Iterator[Claim]:
    name = "figure1_attention_maps"
    softmax, scaled = (1, "maps", "softmax"), (-1, "maps", "scaled")
    yield Claim(
        "softmax-maps-are-vertical",
        "Softmax maps depend on the key alone more than scaled maps do (vertical lines)",
        "better",
        name,
        _each(name, softmax, scaled, quantity="vertical_share"),
    )
    yield Claim(
        "softmax-follows-key-length",
        "What a key gets follows its length more under softmax than under scaled attention",
        "better",
        name,
        _each(name, softmax, scaled, quantity="length_rank"),
    )
    yield Claim(
        "softmax-narrows-queries",
        "Queries vary less in direction under softmax than under scaled attention",
        "better",
        name,
        _each(name, (1, "maps", "scaled"), (-1, "maps", "softmax"), quantity="query_angles"),
    )


def _channels() -> Iterator[Claim]:
    name = "figure2_embedding_channels"
    last = _table(name).columns[-1]
    yield Claim(
        "scaled-is-robust-to-channels",
        f"From C to {last} embedding channels, scaled blocks lose less than softmax blocks",
        "robust",
        name,
        _each(
            name,
            *((1, "softmax", last), (-1, "softmax", "C")),
            *((-1, "scaled", last), (1, "scaled", "C")),
        ),
    )


def _divergence() -> Iterator[Claim]:
    name = "control_no_scale"
    yield Claim(
        "diverges-without-scale",
        "Without 1/sqrt(HW) training often diverges (taken as: more than one time in three)",
        "often",
        name,
        _each(name, (1, "scaled", "without"), quantity=DIVERGED),
    )


def _ours() -> Iterator[Claim]:
    position = "control_position"
    yield Claim(
        "position-helps-alone",
        "The position encoding helps a network without blocks",
        "better",
        position,
        _each(position, (1, "plain", "neither"), (-1, "plain", "position only")),
        is_ours=True,
    )
    temperature = "control_direction_softmax"
    yield Claim(
        "temperature-repairs-directions",
        "Direction-only softmax is better with a learned temperature than with 1/sqrt(d)",
        "better",
        temperature,
        _each(
            temperature,
            (1, "softmax", "direction, 1/sqrt(d)"),
            (-1, "softmax", "direction, learned"),
        ),
        is_ours=True,
    )
    gamma = "control_gamma"
    yield Claim(
        "gamma-does-not-make-the-result",
        "Scaled blocks are to softmax blocks what they are, wherever their batch norm starts",
        "comparable",
        gamma,
        _each(
            gamma,
            *((1, "softmax", "starts at 0"), (-1, "scaled", "starts at 0")),
            *((-1, "softmax", "starts at 1"), (1, "scaled", "starts at 1")),
        ),
        is_ours=True,
    )
