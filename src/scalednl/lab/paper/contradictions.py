"""Where the paper's own numbers disagree, found by comparing them. Imports no torch."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from scalednl.lab.config.data_sets import DATA_SETS
from scalednl.lab.paper.printed_contrasts import PrintedContrast, printed_contrasts
from scalednl.lab.paper.printed_noise import ATTENTIONS, CIFAR, backbone_mean, heads_mean, view_mean
from scalednl.lab.paper.tables import printed


@dataclass(frozen=True)
class Contradiction:
    """Two printed statements that cannot both be right, or one that is missing."""

    subject: str
    details: str


@cache
def contradictions() -> tuple[Contradiction, ...]:
    """All that a comparison of the printed numbers finds."""
    return (*_printed_twice(), *_gains(), *_heads(), *_caption(), *_deviations())


def _printed_twice() -> Iterator[Contradiction]:
    model, heads = printed("table3_heads")["model"], printed("table4_backbones")["heads"]
    for attention in ATTENTIONS:
        third = [heads_mean(data, attention, heads).error for data in CIFAR]
        fourth = [backbone_mean(data, model, attention).error for data in CIFAR]
        if third != fourth:
            yield Contradiction(
                "Tables 3 and 4",
                f"{attention.capitalize()} blocks with {heads} heads in {model} have "
                f"{_both(third)} in Table 3 and {_both(fourth)} in Table 4 (CIFAR-10 / CIFAR-100).",
            )


def _gains() -> Iterator[Contradiction]:
    gains = printed("text")["gains"]
    model, heads = gains[0]["model"], printed("table4_backbones")["heads"]
    claimed = [gain["points"] for gain in gains]
    fourth = [_difference(f"{model}: softmax − scaled", gain["dataset"]) for gain in gains]
    third = [_difference(f"{heads} heads: softmax − scaled", gain["dataset"]) for gain in gains]
    if claimed in (third, fourth):
        return
    found = "; ".join(
        f"{gain['points']} on {_data(gain['dataset'])} is printed only as "
        + (" and ".join(_matches(gain["dataset"], gain["points"])) or "nothing")
        for gain in gains
    )
    yield Contradiction(
        "Gains in the text",
        f"The text gives scaled blocks in {model} gains of {_both(claimed)} points. Table 4 has "
        f"{_both(fourth)} for this network, Table 3 {_both(third)} at {heads} heads. {found}.",
    )


def _matches(data: str, points: float) -> list[str]:
    """The softmax - scaled differences of a data set that have this value."""
    return [
        f"{_table(contrast)}, {contrast.name} ({contrast.model})"
        for contrast in printed_contrasts()
        if contrast.name.endswith("softmax − scaled")
        and len(contrast.terms) == 2
        and contrast.data == data
        and round(contrast.difference, 2) == points
    ]


def _heads() -> Iterator[Contradiction]:
    heads = printed("text")["heads"]
    pairs = [(data, attention) for data in CIFAR for attention in ATTENTIONS]
    base = [view_mean(*pair, "base") for pair in pairs]
    same = [
        count
        for count in printed("table3_heads")["heads"]
        if base == [heads_mean(*pair, count) for pair in pairs]
    ]
    if same != [heads]:
        words = " or ".join(str(count) for count in same)
        yield Contradiction(
            "Heads of Tables 1 and 2",
            f"The text describes the experiments with {heads} heads. The base column of Table 1 "
            f"equals the column of Table 3 for {words} head{'s' * (same != [1])}.",
        )


def _caption() -> Iterator[Contradiction]:
    table = printed("table4_backbones")
    models = dict.fromkeys(row["model"] for row in table["rows"])
    missing = [model for model in models if model not in table["caption_models"]]
    if missing:
        yield Contradiction(
            "Caption of Table 4",
            f"It names {', '.join(table['caption_models'])}; the rows also have "
            f"{' and '.join(missing)}.",
        )


def _deviations() -> Iterator[Contradiction]:
    if printed("text")["standard_deviations"] is None:
        yield Contradiction(
            "Standard deviations",
            "All errors are means over 10 or 3 seeds; no standard deviation is printed.",
        )


def _difference(name: str, data: str) -> float:
    (found,) = (c for c in printed_contrasts() if (c.name, c.data) == (name, data))
    return found.difference


def _table(contrast: PrintedContrast) -> str:
    return f"Table {contrast.table.removeprefix('table')[0]}"


def _data(name: str) -> str:
    return DATA_SETS[name].words


def _both(values: list[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in values)
