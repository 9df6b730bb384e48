"""What a person sees of a sweep."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from scalednl.lab.sweep.board import Board
from scalednl.lab.sweep.display import Watch
from tests.lab.sweep.builders import planned


def _board(out: Path) -> Board:
    runs = planned(out, "a", "b", "c", "d")
    board = Board(runs)
    for run in runs[:2]:
        board.set(run, "running")
    board.see({"a", "b"})
    board.set(runs[0], "finished")
    board.seconds["a"] = 20.0
    (out / "b").mkdir()
    (out / "b" / "epochs.jsonl").write_text("{}\n" * 82)
    return board


def test_the_table_counts_and_estimates(tmp_path: Path) -> None:
    """Counts, the epochs of running runs, and the time left at the pace of those that ended."""
    board = _board(tmp_path)
    watch = Watch(lambda _: 10.0, width=2)
    page = io.StringIO()
    Console(file=page, width=100).print(watch._draw(board))
    assert "b  epoch 82/164" in page.getvalue()
    # One ended in 20 s instead of 10; 2.5 are left, two at a time.
    assert "1 done · 1 running · 2 waiting · 0 failed · about 25 s left" in page.getvalue()


def test_a_log_gets_a_line_for_what_happens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal nothing is drawn, and every line says how far the sweep is."""
    board = _board(tmp_path)
    with Watch(lambda _: 10.0) as watch:
        watch.update(board)
        watch.say(board, board.runs["a"], "finished: [so far]")
    assert capsys.readouterr().out == "[1/4] a: finished: [so far]; about 50 s left\n"


def test_the_longest_run_is_waited_for(tmp_path: Path) -> None:
    """More places than runs make none of them quicker."""
    board = Board(planned(tmp_path, "a", "b"))
    assert Watch(lambda _: 10.0, width=8)._left(board) == 10.0
