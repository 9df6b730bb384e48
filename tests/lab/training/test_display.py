"""What a person sees of a run."""

import io
import sys

import pytest

from scalednl.lab.records.run import Epoch
from scalednl.lab.training.display import Display

RECORD = Epoch(
    epoch=8, lr=0.05, train_loss=1.2345, train_error_pct=50.0, test_error_pct=9.5, seconds=1.0
)


def test_a_finished_epoch_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers stand below each other; an epoch without a test has none."""
    display = Display(164)
    display.begin_epoch(8, 10, 0)
    display.step(1.0)
    display.end_epoch()
    display.epoch(RECORD, 3725.0)
    display.epoch(Epoch(epoch=9, images_per_second=1234.5), 60.0)
    display.say("done")
    assert capsys.readouterr().out.splitlines() == [
        "epoch   9/164  loss 1.234  train 50.00 %  test  9.50 %  lr 0.05  0.0 images/s  "
        "1 h 02 min left",
        "epoch  10/164  loss 0.000  train  0.00 %  lr 0  1,234 images/s  1 min 00 s left",
        "done",
    ]


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither lines nor a bar."""
    display = Display(2, quiet=True)
    display.begin_epoch(0, 10, 0)
    display.epoch(RECORD, 1.0)
    display.say("done")
    assert capsys.readouterr().out == ""


def test_a_terminal_has_a_bar_for_the_current_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts at the steps that a resumed epoch has done, and is gone at the end."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    display = Display(3)
    display.begin_epoch(1, steps=10, done=4)
    bar = display._bar
    assert bar is not None
    display.step(0.5)
    display.step(None)
    (task,) = bar.tasks
    assert (task.completed, task.total, task.fields["loss"]) == (6, 10, "loss 0.500")
    display.end_epoch()
    assert not bar.live.is_started
    assert "epoch 2/3" in terminal.getvalue()
