"""What the paper prints, cell by cell. Imports no torch."""

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

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


@lru_cache(maxsize=1)
def _everything() -> dict[str, Any]:
    return json.loads(
        files("scalednl.lab.paper").joinpath("tables.json").read_text(encoding="utf-8")
    )


def printed(name: str) -> dict[str, Any]:
    """One table, figure or the training settings, as printed; `NAMES` are the names."""
    assert name in NAMES, f"the paper prints no {name!r}: {NAMES}"
    return _everything()[name]


def table3_ratio(attention: str, column: str, heads: int) -> float | None:
    """A cell of Table 3 over that of the network without blocks; None where none is printed.

    `attention` is "scaled" or "softmax", `column` "train_step_ms" or "memory_mb".
    """
    table = printed("table3_heads")
    cells = table[attention][column]
    by_heads = dict(zip(table["heads"], cells, strict=True))
    return by_heads[heads] / by_heads[0] if heads in by_heads else None
