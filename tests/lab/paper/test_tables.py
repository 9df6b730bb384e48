"""The printed numbers are there, and their ratios are the ones everybody quotes."""

import pytest

from scalednl.lab.paper import tables


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
