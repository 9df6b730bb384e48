"""Inference on one large map."""

import pytest

from benchmarks import inference
from benchmarks.goals import goals_of
from benchmarks.records import InferenceRecord
from tests.lab.bench.builders import Show, Shown


def test_the_block_is_compared_with_bare_products(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both orders agree with the equations, and the goals are ratios to them and to the floor."""
    monkeypatch.setattr(inference, "SIDE", 16)
    shown: Shown[InferenceRecord] = show(inference.run)
    record = shown.record
    assert record.error < 1e-5
    assert [goal.value for goal in goals_of(record)] == [
        record.auto.ratio(record.associative),
        record.auto.ratio(record.floor),
    ]
