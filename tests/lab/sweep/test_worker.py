"""One attempt at one run: every way to end is a result and a sentence."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from scalednl.errors import CommandError, UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.records.run import BusyError
from scalednl.lab.sweep import worker
from scalednl.lab.sweep.plan import PlannedRun
from scalednl.lab.sweep.worker import Attempt, Job, attempt
from scalednl.lab.user_code import load_network
from tests.lab.sweep.builders import make_job, planned
from tests.lab.training.builders import SETTINGS, small
from tests.lab.training.own_networks import write_own


@pytest.fixture(autouse=True)
def _own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt takes the arguments of its job for its own."""
    monkeypatch.setattr(sys, "argv", ["scalednl", "reproduce"])


WORKER = (
    "import json, sys; from scalednl.lab.sweep.worker import Job, attempt; "
    "print(attempt(Job(**json.loads(sys.argv[1]))))"
)
"""One attempt in a process of its own, without the pipes"""


def _raising(error: BaseException) -> Attempt:
    def work(_: Job) -> Attempt:
        raise error

    job = Job("run", "run", {}, patience=0.0)
    return attempt(job, work)


@pytest.mark.parametrize(
    ("error", "result", "message"),
    [
        (UsageError("it cannot work"), "refused", "it cannot work"),
        (CommandError("no data"), "failed", "no data"),
        (ValueError("odd"), "failed", "odd"),
        (MemoryError("all of it"), "failed", "MemoryError: all of it"),
        (KeyboardInterrupt(), "interrupted", "interrupted"),
        (BusyError("another trains"), "busy", "another trains"),
    ],
)
def test_errors_are_results(error: BaseException, result: str, message: str) -> None:
    """A mistake is not tried again, everything else may be."""
    found = _raising(error)
    assert (found.result, found.message) == (result, message)


def test_another_process_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as its patience lasts, a worker asks again."""
    monkeypatch.setattr(worker, "POLL_SECONDS", 0.0)
    asked: list[int] = []

    def work(_: Job) -> Attempt:
        asked.append(1)
        if len(asked) < 3:
            raise BusyError("busy")
        return Attempt("finished")

    assert attempt(Job("run", "run", {}, patience=60.0), work).result == "finished"
    assert len(asked) == 3


def test_a_job_holds_what_another_machine_needs(tmp_path: Path) -> None:
    """Its values survive JSON, with the experiment, the settings and the command."""
    (run,) = planned(tmp_path, "a")
    values = json.loads(json.dumps(asdict(make_job(run))))
    assert (values["name"], values["path"]) == ("a", str(tmp_path / "a"))
    assert Experiment.from_dict(values["experiment"]) == run.experiment
    assert values["settings"]["threads"] == 1
    assert values["command"] == sys.argv


def test_a_worker_loads_the_files_that_were_named_to_the_sweep(tmp_path: Path) -> None:
    """A job names them; a worker without them refuses the run."""
    name = load_network(write_own(tmp_path, "swept.py"), "build")
    experiment = small(model=name, at=("stem",), epochs=1)
    job = Job.of(PlannedRun("a", experiment, tmp_path / "a"), SETTINGS)
    assert str(tmp_path / "swept.py") in job.code
    for code, result in (((), "refused"), ((str(tmp_path / "swept.py"),), "finished")):
        done = subprocess.run(
            [sys.executable, "-c", WORKER, json.dumps(asdict(replace(job, code=code)))],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1].startswith(f"Attempt(result='{result}'"), done


def test_a_process_answers_with_json_alone(tmp_path: Path) -> None:
    """What a run prints goes to the log; the answer and the exit code tell how it ended."""
    for name, result, code in (("a", "finished", 0), ("b-refused", "refused", 1)):
        (run,) = planned(tmp_path, name)
        job = json.dumps(asdict(make_job(run)))
        with subprocess.Popen(
            [sys.executable, "-m", "tests.lab.sweep.trivial_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{job}\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.read())
            assert process.wait() == code
        assert answer["result"] == result
