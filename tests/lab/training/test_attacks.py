"""Kills inside file operations, and damage to every file of a run directory.

`SCALEDNL_ATTACKS` sets how many kills there are, and with more than a few every kind of damage to
every file; `make soak` raises it.
"""

import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.errors import CommandError
from scalednl.lab.records.run import RunFolder
from scalednl.lab.records.runs import read_run
from scalednl.lab.training.loop import Trainer
from scalednl.lab.training.run import run
from scalednl.lab.training.trained import source_model
from tests.lab.training.builders import SETTINGS, small

ATTACKS = int(os.environ.get("SCALEDNL_ATTACKS", "5"))
EXPERIMENT = small(test_limit=8, limit=64)
FOLDERS = ("finished", "interrupted")
FILES = {
    "finished": (
        *("config.json", "epochs.jsonl", "result.json", "predictions.npy", "weights.safetensors"),
        *("checkpoints/LAST/weights.safetensors", "checkpoints/LAST/state.pt"),
        *("checkpoints/LAST/SHA256SUMS", ".lock"),
    ),
    "interrupted": (
        *("config.json", "epochs.jsonl", "result.json"),
        *("checkpoints/LAST/weights.safetensors", "checkpoints/LAST/state.pt"),
        *("checkpoints/LAST/SHA256SUMS", "checkpoints/FIRST/state.pt"),
        *("checkpoints/FIRST/SHA256SUMS", ".lock"),
    ),
}


def _delete(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes() or b"\0")
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(len(path.read_bytes())))


def _noise(path: Path) -> None:
    path.write_bytes(b"\xff\x00{]" * 100)


def _longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"[1]")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "deleted": _delete,
    "empty": _empty,
    "cut": _cut,
    "one bit": _flip,
    "zeros": _zeros,
    "noise": _noise,
    "longer": _longer,
    "a folder": _folder,
}
CASES = [(kind, file, damage) for kind in FOLDERS for file in FILES[kind] for damage in DAMAGES]


def _train(path: Path) -> None:
    run(EXPERIMENT, path, replace(SETTINGS, checkpoint_minutes=1e-4), quiet=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished and an interrupted run of the same experiment."""
    out, step = tmp_path_factory.mktemp("runs"), Trainer.train_step
    _train(out / "finished")
    seen = 0

    def stop(trainer: Trainer, *batch: object) -> object:
        nonlocal seen
        seen += 1
        if seen == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return step(trainer, *batch)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", stop)
        _train(out / "interrupted")
    assert read_run(out / "interrupted").state == "interrupted"
    return out


def _place(folder: Path, file: str) -> Path:
    steps = sorted((folder / "checkpoints").glob("0*"))
    return folder / file.replace("LAST", steps[-1].name).replace("FIRST", steps[0].name)


def _attacked(runs: Path, folder: Path, case: tuple[str, str, str]) -> str:
    """Damage one file and train again: what came of it; a wrong result fails."""
    kind, file, damage = case
    shutil.copytree(runs / kind, folder)
    DAMAGES[damage](_place(folder, file))
    truth = (runs / "finished" / "weights.safetensors").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert read_run(folder).state in ("finished", "interrupted", "damaged", "running"), case
        try:
            _train(folder)
        except CommandError:
            return "refused"
        result = RunFolder(folder).read_result()
        assert result is not None
        assert result.status == "finished", case
        try:
            found = source_model(folder)
        except CommandError:
            return "refused"
    del found
    assert (folder / "weights.safetensors").read_bytes() == truth, case
    return "same bits"


def test_damage_to_any_file_is_noticed_or_harmless(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trained again, a damaged run ends with the same bits or a sentence: never another result."""
    # A prime step meets every file and every kind of damage.
    chosen = CASES if ATTACKS > 20 else CASES[::7]
    outcomes = Counter(
        _attacked(runs, tmp_path / str(number), case) for number, case in enumerate(chosen)
    )
    assert outcomes["same bits"] > len(chosen) / 4
    assert outcomes["refused"]
    with capsys.disabled():
        print(f"\n{len(chosen)} damaged runs: {dict(outcomes)}", end="")


def test_kills_inside_file_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed before any of its file operations, a training resumes to the same bits."""
    numbers = [str(17 + number * 29) for number in range(ATTACKS)]
    command = [sys.executable, "-m", "tests.lab.training.kill_worker", str(tmp_path), *numbers]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60 + 30 * ATTACKS)
    assert ended.returncode == 0, ended.stderr
    with capsys.disabled():
        print(f"\n{ended.stdout.strip()}", end="")
