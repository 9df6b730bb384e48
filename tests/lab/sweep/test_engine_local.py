"""Runs in processes on this machine: failed, killed, interrupted, shared."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.machine import AUTOGROUP
from scalednl.lab.records.failure import log_tail, read_failure
from scalednl.lab.records.run import RunFolder
from scalednl.lab.sweep.engine_local import LocalEngine, _environment
from scalednl.lab.sweep.plan import PlannedRun
from scalednl.lab.sweep.schedule import SweepOutcome, sweep
from tests.lab.sweep.builders import (
    Notes,
    check_training_survives_a_kill,
    made,
    make_job,
    planned,
)

TRIVIAL, TRAINING = "tests.lab.sweep.trivial_worker", "tests.lab.sweep.pid_worker"


def _sweep(
    runs: list[PlannedRun],
    jobs: int = 2,
    retries: int = 1,
    worker: str = TRIVIAL,
    notes: Notes | None = None,
) -> tuple[SweepOutcome, Notes]:
    notes = notes or Notes()
    with closing(LocalEngine(jobs, worker)) as engine:
        return sweep(runs, engine, make_job, display=notes, retries=retries), notes


def test_a_long_message_does_not_block(tmp_path: Path) -> None:
    """A run that fails with more words than a pipe holds has failed, and the sweep ends."""
    summary, _ = _sweep(planned(tmp_path, "a-wordy", "b"), retries=0)
    assert (list(summary.failed), summary.finished) == (["a-wordy"], ("b",))


def test_one_bad_run_does_not_end_the_others(tmp_path: Path) -> None:
    """Exceptions and kills are retried, refusals are not; all are remembered and reported."""
    names = ["a", "b-fail", "c-killed", "d-refused", "e-flaky", "f-diverged"]
    summary, notes = _sweep(planned(tmp_path, *names))
    assert summary.finished == ("a", "e-flaky")
    assert summary.diverged == ("f-diverged",)
    assert summary.exit_code == 1
    assert summary.failed == {
        "b-fail": "RuntimeError: as asked",
        "c-killed": "worker was killed (SIGKILL, as when memory runs out)",
        "d-refused": "this cannot work",
    }
    counts = {name: read_failure(tmp_path / name) for name in names}
    assert {name: found.count for name, found in counts.items() if found} == {
        "b-fail": 2,
        "c-killed": 2,
        "d-refused": 1,
    }
    assert log_tail(tmp_path / "b-fail")[-1] == "RuntimeError: as asked"
    assert "e-flaky: failed, retrying: RuntimeError: only the first time" in notes.said
    assert made(tmp_path) == ["a", "e-flaky", "f-diverged"]


def test_what_is_needed_comes_first(tmp_path: Path) -> None:
    """A run waits for the one it needs; if that fails it is blocked, and nothing else is."""
    first, second = planned(tmp_path, "first-fail", "other")
    needy = planned(tmp_path, "needy", after=("first-fail",))
    summary, _ = _sweep([*needy, first, second], retries=0)
    assert summary.blocked == {"needy": "needs first-fail, which failed"}
    assert summary.finished == ("other",)
    good = planned(tmp_path, "good")
    needy = planned(tmp_path, "needy", after=("good",))
    summary, notes = _sweep([*needy, *good])
    assert summary.exit_code == 0
    assert notes.said == ["good: made", "needy: made"]


def test_finished_runs_stay(tmp_path: Path) -> None:
    """What the plan has as finished is not started; what it does not know is found finished."""
    runs = planned(tmp_path, "a", "b")
    assert _sweep(runs)[0].exit_code == 0
    summary, notes = _sweep([replace(runs[0], state="finished"), runs[1]])
    assert summary.finished == ("a", "b")
    assert notes.said == ["b: was there"]


def test_a_run_of_another_process_is_waited_for(tmp_path: Path) -> None:
    """A locked run is neither begun nor failed; when the lock opens it is resumed."""
    (run,) = planned(tmp_path, "a")
    run.path.mkdir()
    notes, held = Notes(), RunFolder(run.path).locked()
    held.__enter__()

    def release() -> None:
        while not notes.said:
            time.sleep(0.05)
        held.__exit__(None, None, None)

    thread = threading.Thread(target=release)
    thread.start()
    summary, _ = _sweep([run], notes=notes)
    thread.join()
    assert notes.said == ["a: waiting: another process is training it", "a: made"]
    assert summary.finished == ("a",)
    assert read_failure(run.path) is None


PROGRAM = """
import sys
from contextlib import closing
from pathlib import Path
from scalednl.lab.sweep import schedule
from scalednl.lab.sweep.engine_local import LocalEngine
from scalednl.lab.sweep.schedule import sweep
from tests.lab.sweep.builders import Notes, make_job, planned
schedule.STOP_SECONDS = 4.0
with closing(LocalEngine(2, "tests.lab.sweep.trivial_worker")) as engine:
    runs = planned(Path(sys.argv[1]), *sys.argv[2:])
    summary = sweep(runs, engine, make_job, display=Notes(), retries=0)
print(len(summary.finished), len(summary.left), flush=True)
sys.exit(summary.exit_code)
"""


def _program(out: Path, *names: str, before: Sequence[str] = ()) -> "subprocess.Popen[str]":
    command = [*before, sys.executable, "-c", PROGRAM, str(out), *names]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _pids(out: Path, count: int) -> list[int]:
    """The processes of the runs, when so many are at work."""
    for _ in range(600):
        found = [path.read_text() for path in out.glob("*/pid")]
        if len(found) == count and all(found):
            return [int(text) for text in found]
        time.sleep(0.05)
    pytest.fail("the runs have not begun")


def _gone(pids: list[int]) -> bool:
    for _ in range(200):
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_workers_are_as_nice_as_their_sweep(tmp_path: Path) -> None:
    """`nice` before the command counts for workers too, which are sessions of their own."""
    if not AUTOGROUP.is_file():
        pytest.skip(f"{AUTOGROUP} is missing: Linux with CONFIG_SCHED_AUTOGROUP has it")
    with _program(tmp_path, "a-long", before=("nice", "-n", "7")) as process:
        (pid,) = _pids(tmp_path, 1)
        group = Path(f"/proc/{pid}/autogroup").read_text()
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert group.split()[-1] == str(min(19, os.nice(0) + 7))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_reach_the_runs(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """The first signal lets runs save and end, and starts no others."""
    program = _program(tmp_path, "a-long", "b-long", "c-long")
    pids = _pids(tmp_path, 2)
    program.send_signal(number)
    output, _ = program.communicate(timeout=30)
    assert program.returncode == code
    assert output == "0 3\n"
    assert _gone(pids)
    assert not (tmp_path / "c-long").exists()


def test_a_run_without_a_step_is_ended_and_tried_again(tmp_path: Path) -> None:
    """Both attempts are recorded; a run that is slow but steady, and others, finish."""
    runs = planned(tmp_path, "a-hang", "b-steady", "c")
    notes = Notes()
    with closing(LocalEngine(2, TRIVIAL)) as engine:
        found = sweep(runs, engine, make_job, display=notes, retries=1, stall_seconds=2.0)
    assert found.finished == ("b-steady", "c")
    assert found.failed == {"a-hang": "no step for 2 s: it was ended"}
    assert "a-hang: failed, retrying: no step for 2 s: it was ended" in notes.said
    failure = read_failure(tmp_path / "a-hang")
    assert failure is not None
    assert failure.count == 2
    assert not list(tmp_path.glob("[bc]*/.heartbeat"))


def test_a_signal_ends_runs_that_do_not_save(tmp_path: Path) -> None:
    """They have a stated time; then the sweep ends, and so do they."""
    program = _program(tmp_path, "a-hang", "b-long")
    pids = _pids(tmp_path, 2)
    program.send_signal(signal.SIGTERM)
    output, _ = program.communicate(timeout=60)
    assert program.returncode == 143
    assert output == "0 2\n"
    assert _gone(pids)


def test_runs_do_not_outlive_a_sweep_that_was_killed(tmp_path: Path) -> None:
    """Killed without a word, a sweep takes its runs along: they save and end."""
    program = _program(tmp_path, "a-long", "b-long")
    pids = _pids(tmp_path, 2)
    program.kill()
    program.communicate()
    assert _gone(pids)


def test_two_sweeps_share_a_folder(tmp_path: Path) -> None:
    """Begun together on the same runs, both end well and every result is made once."""
    names = [f"run{number}" for number in range(6)]
    programs = [_program(tmp_path, *names) for _ in range(2)]
    for program in programs:
        output, _ = program.communicate(timeout=120)
        assert output == "6 0\n"
        assert program.returncode == 0
    assert made(tmp_path) == names


def test_training_goes_on_after_a_kill(tmp_path: Path) -> None:
    """A real training whose process is killed resumes from its checkpoint."""
    check_training_survives_a_kill(tmp_path, lambda runs: _sweep(runs, worker=TRAINING)[0])
    assert read_failure(tmp_path / "training") is None


def test_each_process_sees_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots go round the GPUs that are listed; one GPU or none is left as it is."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert [_environment(slot)["CUDA_VISIBLE_DEVICES"] for slot in range(3)] == ["2", "5", "2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert _environment(0)["CUDA_VISIBLE_DEVICES"] == ""
