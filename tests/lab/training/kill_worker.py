"""Kills trainings inside file operations, one process for each.

python -m tests.lab.training.kill_worker FOLDER NUMBER ...

For every number a training starts in a folder of its own, is killed just before that file operation
of its own (opening, renaming, removing, making), and is resumed to the end. Its weights and records
must be those of a training that nobody killed. Prints how many kills were survived, and how many
operations a training has.
"""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from scalednl.lab.records.run import RunFolder
from scalednl.lab.training.run import run
from tests.lab.training.builders import SETTINGS, small

EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod")
EXPERIMENT = small(test_limit=8, limit=64)


def _train(folder: Path) -> None:
    run(EXPERIMENT, folder, replace(SETTINGS, checkpoint_minutes=1e-4), quiet=True)


def _in_child(work: Callable[[], None]) -> int:
    """How a child process that does this ends: its exit code, or the negative signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _counting(folder: Path, kill_at: int | None) -> list[int]:
    """Counts file operations inside the folder, in a list of one, and kills before one of them."""
    count = [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and os.fsdecode(str(arguments[0])).startswith(str(folder)):
            count[0] += 1
            if count[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return count


def _killed(folder: Path, number: int) -> int:
    def work() -> None:
        _counting(folder, number)
        _train(folder)

    return _in_child(work)


def _records(folder: Path) -> tuple[bytes, list[object]]:
    """The weights, and the epochs without their times."""
    epochs = RunFolder(folder).read_epochs()
    bare = [replace(epoch, seconds=0.0, images_per_second=0.0) for epoch in epochs]
    return (folder / "weights.safetensors").read_bytes(), list(bare)


def main(arguments: list[str]) -> None:
    """Train once undisturbed, then once for every number."""
    torch.set_num_threads(1)
    out, numbers = Path(arguments[0]), [int(text) for text in arguments[1:]]
    operations = out / "operations"

    def count() -> None:
        counted = _counting(out / "whole", None)
        _train(out / "whole")
        operations.write_text(str(counted[0]))

    assert _in_child(count) == 0
    truth = _records(out / "whole")
    total, survived = int(operations.read_text()), 0
    for number in numbers:
        folder = out / f"killed{number}"
        ended = _killed(folder, 1 + number % total)
        assert ended == -signal.SIGKILL, f"operation {number}: the process ended with {ended}"
        assert _in_child(lambda folder=folder: _train(folder)) == 0, f"operation {number}"  # type: ignore[misc]
        assert _records(folder) == truth, f"operation {number}"
        assert not list(folder.glob("**/.*.part")), f"operation {number}"
        survived += 1
    print(f"{survived} kills survived inside {total} file operations")


if __name__ == "__main__":
    main(sys.argv[1:])
