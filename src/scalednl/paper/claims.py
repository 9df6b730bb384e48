"""What the paper claims, each as a difference between trainings that must be above 0."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from scalednl.paper.artefacts import BLOCKS, Artefact, Cell, artefacts
from scalednl.paper.scales import Setting

Quantity = Literal["error", "key_share", "diverged"]
OFTEN = 1 / 3
"""What "often diverges" is taken to mean: at least one training in three"""


@dataclass(frozen=True)
class Claim:
    """sum of weight * quantity > 0, over trainings of the same seed."""

    name: str
    says: str
    """In the paper's sense, in a sentence"""
    artefact: str
    """Where it stands"""
    terms: tuple[tuple[int, Setting], ...]
    quantity: Quantity = "error"

    @property
    def setting(self) -> Setting:
        """Data set and network that it speaks of."""
        return self.terms[0][1]


@cache
def claims() -> tuple[Claim, ...]:
    """All of them, one for each data set and network that the paper makes it on."""
    return (
        *_importance(),
        *_initialisation(),
        *_heads(),
        *_backbones(),
        *_maps(),
        *_channels(),
        *_divergence(),
    )


def _rows(artefact: Artefact) -> Iterator[dict[tuple[str, str], Setting]]:
    """For each data set and network: (row, column) -> its setting."""
    groups: dict[tuple[str, str], dict[tuple[str, str], Setting]] = {}
    for cell in artefact.cells:
        group = groups.setdefault(_place(cell), {})
        group[cell.row, cell.column] = cell.setting
    yield from groups.values()


def _place(cell: Cell) -> tuple[str, str]:
    return cell.setting.data, cell.setting.network


def _importance() -> Iterator[Claim]:
    name = "table1_importance"
    for at in _rows(artefacts()[name]):
        yield Claim(
            "softmax-needs-magnitude",
            "Softmax attention loses more without magnitudes than without directions",
            name,
            ((1, at["softmax", "direction"]), (-1, at["softmax", "magnitude"])),
        )
        yield Claim(
            "scaled-directions-beat-softmax",
            "With directions only, scaled attention does better than softmax attention",
            name,
            ((1, at["softmax", "direction"]), (-1, at["scaled", "direction"])),
        )
        yield Claim(
            "scaled-uses-direction",
            "Scaled attention loses more without directions than without magnitudes",
            name,
            ((1, at["scaled", "magnitude"]), (-1, at["scaled", "direction"])),
        )


def _initialisation() -> Iterator[Claim]:
    name = "table2_initialization"
    for at in _rows(artefacts()[name]):
        yield Claim(
            "softmax-needs-small-init",
            "Softmax blocks need the tuned initialisation: He's is worse than 0.01",
            name,
            ((1, at["softmax", "he"]), (-1, at["softmax", "std=0.01"])),
        )
        yield Claim(
            "scaled-likes-he",
            "Scaled blocks do best with He's initialisation, the standard one: better than 0.01",
            name,
            ((1, at["scaled", "std=0.01"]), (-1, at["scaled", "he"])),
        )
        yield Claim(
            "scaled-is-robust-to-init",
            "Between He's initialisation and 0.01, scaled blocks prefer the small one less than "
            "softmax blocks do",
            name,
            (
                (1, at["softmax", "he"]),
                (-1, at["softmax", "std=0.01"]),
                (-1, at["scaled", "he"]),
                (1, at["scaled", "std=0.01"]),
            ),
        )
        for attention, best in (("softmax", "std=0.01"), ("scaled", "he")):
            yield Claim(
                f"{attention}-zero-init-hurts",
                f"Zero initialisation is worse than the best one for {attention} blocks",
                name,
                ((1, at[attention, "std=0.0"]), (-1, at[attention, best])),
            )


def _heads() -> Iterator[Claim]:
    name = "table3_heads"
    for at in _rows(artefacts()[name]):
        for heads in ("1 head", "2 heads"):
            yield Claim(
                f"scaled-beats-softmax-{heads.replace(' ', '-')}",
                f"With {heads}, scaled blocks give a lower error than softmax blocks",
                name,
                ((1, at["softmax", heads]), (-1, at["scaled", heads])),
            )
        for attention in BLOCKS:
            yield Claim(
                f"{attention}-blocks-help",
                f"A network with {attention} blocks of 4 heads beats the network without",
                name,
                ((1, at[attention, "0 heads"]), (-1, at[attention, "4 heads"])),
            )
            yield Claim(
                f"{attention}-heads-help",
                f"Four heads beat one, with {attention} blocks",
                name,
                ((1, at[attention, "1 head"]), (-1, at[attention, "4 heads"])),
            )


def _backbones() -> Iterator[Claim]:
    name = "table4_backbones"
    for at in _rows(artefacts()[name]):
        ((row, _), *_) = at
        yield Claim(
            "scaled-beats-softmax",
            "Scaled blocks give a lower error than softmax blocks",
            name,
            ((1, at[row, "softmax"]), (-1, at[row, "scaled"])),
        )


def _maps() -> Iterator[Claim]:
    name = "figure1_attention_maps"
    for at in _rows(artefacts()[name]):
        yield Claim(
            "softmax-maps-are-vertical",
            "Softmax maps depend on the key alone more than scaled maps do (vertical lines)",
            name,
            ((1, at["maps", "softmax"]), (-1, at["maps", "scaled"])),
            quantity="key_share",
        )


def _channels() -> Iterator[Claim]:
    name = "figure2_embedding_channels"
    for at in _rows(artefacts()[name]):
        last = list(at)[-1][1]
        yield Claim(
            "scaled-is-robust-to-channels",
            f"From C to {last} embedding channels, scaled blocks lose less than softmax blocks",
            name,
            (
                (1, at["softmax", last]),
                (-1, at["softmax", "C"]),
                (-1, at["scaled", last]),
                (1, at["scaled", "C"]),
            ),
        )


def _divergence() -> Iterator[Claim]:
    name = "control_no_scale"
    for at in _rows(artefacts()[name]):
        yield Claim(
            "diverges-without-scale",
            "Without 1/sqrt(HW) training often diverges (taken as: one time in three or more)",
            name,
            ((1, at["scaled", "without"]),),
            quantity="diverged",
        )
