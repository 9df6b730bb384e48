"""What a person sees of a sweep."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from scalednl.lab.paper.hours import Rates
from scalednl.lab.sweep import display as module
from scalednl.lab.sweep.display import SweepDisplay
from scalednl.lab.sweep.schedule import Start, SweepState
from tests.lab.sweep.builders import planned


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every update looks at the runs."""
    monkeypatch.setattr(module, "SECONDS", 0.0)


def _state(out: Path) -> SweepState:
    runs = planned(out, "a", "b", "c", "d")
    state = SweepState(runs)
    for run in runs[:2]:
        state.change(run, "running")
    state.set_at_work({"a", "b"})
    state.change(runs[0], "finished")
    state.set_at_work({"b"})
    state.seconds["a"] = 20.0
    _epochs(out, "b", 82)
    return state


def _epochs(out: Path, name: str, count: int, error: float | None = None) -> None:
    (out / name).mkdir(exist_ok=True)
    tested = "" if error is None else f', "test_error_pct": {error}'
    lines = [f'{{"schema": 1, "epoch": {epoch}{tested}}}\n' for epoch in range(count)]
    (out / name / "epochs.jsonl").write_text("".join(lines))


def test_the_table_counts_and_estimates(tmp_path: Path) -> None:
    """Counts, the epochs of running runs, and the time left at the pace of what was trained."""
    state = _state(tmp_path)
    start = state.started["b"]
    state.started["b"] = Start(start.time, 82)
    display = SweepDisplay(lambda _: 1e6, width=2)
    state.seconds["a"] = 2e6
    display.update(state)
    page = io.StringIO()
    Console(file=page, width=100).print(display._draw(state))
    assert "b  epoch 82/164" in page.getvalue()
    # One ended in twice the time; 2.5 are left, two at a time: 2.5 million seconds.
    assert "1 finished · 1 running · 2 waiting · 0 failed · about 28 d 22 h left" in page.getvalue()


def test_a_log_begins_with_what_there_is_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs, those to do, how many at a time, and the time: once."""
    runs = planned(tmp_path, "a", "b", "c")
    with SweepDisplay(lambda _: 90.0, width=2) as display:
        for _ in range(2):
            display.begin(SweepState([replace(runs[0], state="finished"), *runs[1:]]))
    assert capsys.readouterr().out == "3 runs, 2 to do, 2 at a time; about 1 min 30 s left\n"


def test_a_log_gets_a_line_for_what_happens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Starts, every tenth part of the epochs with its error, and ends; each once."""
    state = _state(tmp_path)
    _epochs(tmp_path, "b", 16)
    state.started["b"] = Start(state.started["b"].time, 16)
    with SweepDisplay(lambda _: 0.0) as display:
        for count in (16, 16, 17, 18, 34, 164):
            _epochs(tmp_path, "b", count, error=12.345)
            display.update(state)
        display.report(state, state.runs["a"], "finished: [so far]")
    assert capsys.readouterr().out.splitlines() == [
        "[1/4] b: resumed after epoch 16",
        "[1/4] b: epoch 17/164, test error 12.35 %",
        "[1/4] b: epoch 34/164, test error 12.35 %",
        "[1/4] a: finished: [so far]",
    ]


def test_a_log_is_never_silent_for_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while without an event a line tells how far the running runs are."""
    assert module.SILENT_SECONDS + module.SECONDS < 60
    state = _state(tmp_path)
    display = SweepDisplay(lambda _: 0.0)
    display.update(state)
    display.update(state)
    assert capsys.readouterr().out == "[1/4] b: started\n"
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.0)
    display.update(state)
    assert capsys.readouterr().out == "[1/4] running: b epoch 82/164\n"
    state.set_at_work(set())
    display.update(state)
    assert capsys.readouterr().out == "[1/4] waiting for the first run to start\n"
    state.change(state.runs["c"], "elsewhere")
    display.update(state)
    assert capsys.readouterr().out == "[1/4] running: 1 run in other processes\n"


def test_half_precision_has_its_own_estimate(tmp_path: Path) -> None:
    """The time left of a bf16 run is that of bf16 runs of its cell, not of float32 ones."""
    (run,) = planned(tmp_path, "a")
    half = replace(run, experiment=replace(run.experiment, precision="bf16"))
    rates = Rates(1e9, "", {run.cell: 10.0, half.cell: 4.0})
    for one, seconds in ((run, 10), (half, 4)):
        display = SweepDisplay(lambda planned: planned.seconds(rates))
        assert display._words_left(SweepState([one])) == f"; about {seconds} s left"
