"""What the paper prints, cell by cell; the data files of this folder. Imports no torch."""

from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from scalednl.attentions import paper_attentions
from scalednl.lab.recipes import CIFAR, TINY

DATA = (*CIFAR, TINY)
BLOCKS = tuple(paper_attentions())
NAMES = (
    "table1_importance",
    "table2_initialization",
    "table3_heads",
    "table4_backbones",
    "figure1_attention_maps",
    "figure2_embedding_channels",
    "text",
    "training",
)


class TablePlace(NamedTuple):
    """The place of a number in a table."""

    data: str
    model: str
    row: str
    """The attention, or the number of heads"""
    column: str


class Mean(NamedTuple):
    """A printed test error in percent, averaged over `seeds` runs."""

    error: float
    seeds: int


def content(name: str) -> bytes:
    """The content of a data file of this folder."""
    return files("scalednl.lab.paper").joinpath(name).read_bytes()


@cache
def _everything() -> dict[str, Any]:
    return msgspec.json.decode(content("tables.json"), type=dict[str, Any])


def printed(name: str) -> dict[str, Any]:
    """One table, figure or the training settings, as printed; `NAMES` are the names."""
    assert name in NAMES, f"the paper prints no {name!r}: {NAMES}"
    return _everything()[name]


@cache
def printed_means(table: str) -> dict[TablePlace, Mean]:
    """Every error of a table, in the order of its cells."""
    found: dict[TablePlace, Mean] = {}
    for values in printed(table)["rows"]:
        row = {**printed(table), **values}
        name = row.get("attention") or f"{row['heads']} heads"
        for column, error in zip(row["columns"], row["error"], strict=True):
            found[TablePlace(row["dataset"], row["model"], name, column)] = Mean(
                error, row["seeds"]
            )
    return found


def mean_at(table: str, data: str, row: str, column: str, model: str = "PreResNet56") -> Mean:
    """One error of a table; PreResNet50 is the only network of Tiny-ImageNet."""
    return printed_means(table)[
        TablePlace(data, "PreResNet50" if data == TINY else model, row, column)
    ]


def table3_ratio(attention: str, column: str, heads: int) -> float | None:
    """A cost of Table 3 over that of the network without blocks; None where none is printed.

    `attention` is "scaled" or "softmax", `column` "train_step_ms" or "memory_mb".
    """
    table = printed("table3_heads")
    by_heads = dict(zip(table["heads"], table[attention][column], strict=True))
    return by_heads[heads] / by_heads[0] if heads in by_heads else None
