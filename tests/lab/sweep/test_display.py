"""What a person sees of a sweep."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from scalednl.lab.paper.hours import Rates
from scalednl.lab.sweep.display import SweepDisplay
from scalednl.lab.sweep.schedule import SweepState
from tests.lab.sweep.builders import planned


def _state(out: Path) -> SweepState:
    runs = planned(out, "a", "b", "c", "d")
    state = SweepState(runs)
    for run in runs[:2]:
        state.change(run, "running")
    state.set_at_work({"a", "b"})
    state.change(runs[0], "finished")
    state.seconds["a"] = 20.0
    (out / "b").mkdir()
    (out / "b" / "epochs.jsonl").write_text("{}\n" * 82)
    return state


def test_the_table_counts_and_estimates(tmp_path: Path) -> None:
    """Counts, the epochs of running runs, and the time left at the pace of those that ended."""
    state = _state(tmp_path)
    display = SweepDisplay(lambda _: 10.0, width=2)
    page = io.StringIO()
    Console(file=page, width=100).print(display._draw(state))
    assert "b  epoch 82/164" in page.getvalue()
    # One ended in 20 s instead of 10; 2.5 are left, two at a time.
    assert "1 finished · 1 running · 2 waiting · 0 failed · about 25 s left" in page.getvalue()


def test_a_log_gets_a_line_for_what_happens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal nothing is drawn, and every line says how far the sweep is."""
    state = _state(tmp_path)
    with SweepDisplay(lambda _: 10.0) as display:
        display.update(state)
        display.report(state, state.runs["a"], "finished: [so far]")
    assert capsys.readouterr().out == "[1/4] a: finished: [so far]; about 50 s left\n"


def test_the_longest_run_is_waited_for(tmp_path: Path) -> None:
    """More places than runs make none of them quicker."""
    state = SweepState(planned(tmp_path, "a", "b"))
    assert SweepDisplay(lambda _: 10.0, width=8)._left(state) == 10.0


def test_half_precision_has_its_own_estimate(tmp_path: Path) -> None:
    """The time left of a bf16 run is that of bf16 runs of its cell, not of float32 ones."""
    (run,) = planned(tmp_path, "a")
    half = replace(run, experiment=replace(run.experiment, precision="bf16"))
    rates = Rates(1e9, "", {run.cell: 10.0, half.cell: 4.0})
    for one, seconds in ((run, 10.0), (half, 4.0)):
        display = SweepDisplay(lambda planned: planned.seconds(rates))
        assert display._left(SweepState([one])) == seconds
