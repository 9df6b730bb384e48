"""The training loop against a bare one."""

import pytest

from benchmarks import training_loop
from benchmarks.records import LoopRecord
from tests.lab.bench.builders import Show, Shown

RECIPE = "cifar10-preresnet8-plain-short"


def test_the_loop_is_compared_with_a_bare_one(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both loops move the weights alike before they are timed; the speed is their ratio."""
    monkeypatch.setattr(training_loop, "RECIPES", (RECIPE,))
    shown: Shown[LoopRecord] = show(training_loop.run)
    (row,) = shown.record.rows
    assert row.error < 1e-5
    assert row.speed_over_bare == pytest.approx(row.bare.median_ms / row.train.median_ms)
    assert row.floor is not None
    assert row.floor.work.multiply_adds > 0
    if row.train_default is not None:
        ratio = row.train_default.median_ms / row.train.median_ms
        assert row.speed_over_default == pytest.approx(ratio)
    assert RECIPE in shown.text
