"""The printed numbers are there, and their ratios are the ones everybody quotes."""

from dataclasses import fields
from typing import Any

import msgspec
import pytest

from scalednl.lab.paper import tables
from scalednl.lab.paper.claims import Claim
from scalednl.lab.paper.printed_contrasts import ContrastEntry
from scalednl.lab.paper.provenance import Cells, Contradiction, Inferred, PaperChoice, Provenance


@pytest.mark.parametrize("name", tables.NAMES)
def test_every_table_is_there(name: str) -> None:
    """Each table, figure and the training settings can be asked for by name."""
    assert tables.printed(name)


def test_table3_ratios() -> None:
    """Four heads cost x1.227 in time and x1.209 in memory, softmax x1.618 and x1.850."""
    found = [
        tables.table3_ratio(attention, column, 4)
        for attention in ("scaled", "softmax")
        for column in ("train_step_ms", "memory_mb")
    ]
    assert found == pytest.approx([1.227, 1.209, 1.618, 1.850], abs=1e-3)
    assert tables.table3_ratio("scaled", "train_step_ms", 0) == 1
    assert tables.table3_ratio("scaled", "train_step_ms", 8) is None


@pytest.mark.parametrize(
    ("name", "part", "kind"),
    [
        ("claims.json", None, Claim),
        ("contrasts.json", None, ContrastEntry),
        ("provenance.json", "choices", PaperChoice),
        ("provenance.json", "contradictions", Contradiction),
        ("provenance.json", "inferred", Inferred),
    ],
)
def test_data_files_have_no_unknown_fields(name: str, part: str | None, kind: Any) -> None:
    """A misspelt optional field of an entry would be ignored by the reader: there is none."""
    content: Any = msgspec.json.decode(tables.content(name))
    known = {field.name for field in fields(kind)}
    entries = content if part is None else content[part]
    assert entries
    for entry in entries:
        assert set(entry) <= known
        for cells in entry.get("cells", ()):
            assert set(cells) <= {field.name for field in fields(Cells)}
    if part is not None:
        assert set(content) == {field.name for field in fields(Provenance)}
