"""Real processes: killed, interrupted, two at once.

`SCALEDNL_KILLS` sets how often the kill test kills; `make soak` raises it.
"""

import os
import pty
import random
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import scalednl
from scalednl.lab.records.run import RunFolder
from scalednl.lab.training.evaluate import evaluate_source
from tests.lab.training.builders import OPTIONS
from tests.support import called_scalednl

KILLS = int(os.environ.get("SCALEDNL_KILLS", "2"))
TRAIN = [sys.executable, "-m", "scalednl", "train", "pairs-scaled", *OPTIONS]
LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in LAUNCHER}


def _start(*options: str, module: list[str] | None = None) -> "subprocess.Popen[str]":
    """A process in a session of its own, so that all of it can be ended."""
    return subprocess.Popen(
        [*(module or TRAIN), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment(),
        start_new_session=True,
    )


def _end(process: "subprocess.Popen[str]", seconds: float = 240) -> str:
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"not ended within {seconds} s:\n{output}")
    return output


def _wait_for_steps(process: "subprocess.Popen[str]", folder: Path) -> None:
    """Until training has begun and a checkpoint is there."""
    for _ in range(2400):
        if process.poll() is not None or list((folder / "checkpoints").glob("0*")):
            return
        time.sleep(0.05)
    pytest.fail("no checkpoint within two minutes")


def _same_weights(one: Path, two: Path) -> bool:
    mine, theirs = (load_file(path / "weights.safetensors") for path in (one, two))
    return all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.usefixtures("unchecked_shapes")
def test_kills_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed at random moments, the run ends with the weights of one that never was.

    Every epoch is recorded exactly once, and what a kill loses is less than K minutes.
    """
    epochs = ["--epochs", "30", "--checkpoint-minutes", "0.005"]
    command = [*TRAIN[3:], "--out", str(tmp_path / "whole"), *epochs]
    whole = called_scalednl(monkeypatch, capsys, *command)
    assert whole.returncode == 0, whole.stderr
    length = RunFolder(tmp_path / "whole").read_result().seconds  # type: ignore[union-attr]
    draw, survived, lost = random.Random(0), 0, []
    while survived < KILLS:
        process = _start("--out", str(tmp_path / "killed"), *epochs)
        _wait_for_steps(process, tmp_path / "killed")
        time.sleep(draw.uniform(0, length / KILLS))
        if process.poll() is not None:
            # Faster than the dice: begin again, so that all kills fall on a run at work.
            output = _end(process)
            assert process.returncode == 0, output
            assert _same_weights(tmp_path / "whole", tmp_path / "killed")
            (tmp_path / "killed").rename(tmp_path / f"finished-{survived}-{time.monotonic_ns()}")
            continue
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        survived += 1
        newest = max((tmp_path / "killed" / "checkpoints").glob("0*")).stat().st_mtime
        lost.append(time.time() - newest)
    last = _start("--out", str(tmp_path / "killed"), *epochs)
    output = _end(last)
    assert last.returncode == 0, output
    assert _same_weights(tmp_path / "whole", tmp_path / "killed")
    recorded = [epoch.epoch for epoch in RunFolder(tmp_path / "killed").read_epochs()]
    assert recorded == list(range(30))
    with capsys.disabled():
        print(f"\n{survived} kills survived, at most {max(lost):.1f} s of work lost", end="")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_save_and_exit(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Ctrl-C and termination end with their code, a checkpoint of that step, and the way on."""
    out = tmp_path / "run"
    process = _start("--out", str(out), "--epochs", "1000")
    _wait_for_steps(process, out)
    time.sleep(0.5)
    os.kill(process.pid, number)
    output = _end(process)
    assert process.returncode == code, output
    assert f"Resume with: scalednl train {out}" in output
    assert "Traceback" not in output
    result = RunFolder(out).read_result()
    assert result is not None
    assert result.status == "interrupted"
    assert (out / "checkpoints" / f"{result.steps:08}").is_dir()


@pytest.mark.parametrize("reader", ["tee log", "head -1 > log"])
def test_ctrl_c_through_a_pipe_saves(tmp_path: Path, reader: str) -> None:
    """`train 2>&1 | tee log`, Ctrl-C: tee ends at once, and the checkpoint is written.

    `head` has ended before, so that not even the notice has a reader.
    """
    out = tmp_path / "run"
    command = shlex.join([*TRAIN, "--out", str(out), "--epochs", "1000"])
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execvpe("bash", ["bash", "-c", f"{command} 2>&1 | {reader}"], _environment())
    for _ in range(2400):
        if (tmp_path / "log").is_file() and (tmp_path / "log").stat().st_size:
            break
        time.sleep(0.05)
    time.sleep(0.5)
    os.write(terminal, b"\x03")
    with suppress(OSError):
        while os.read(terminal, 1024):
            pass
    os.waitpid(pid, 0)
    folder = RunFolder(out)
    for _ in range(600):
        result = folder.read_result()
        if result is not None and result.status != "running":
            break
        time.sleep(0.1)
    assert result is not None
    assert result.status == "interrupted"
    assert (out / "checkpoints" / f"{result.steps:08}").is_dir()


@pytest.mark.parametrize("streams", [">&- 2>&-", ">/dev/full 2>/dev/full", "2>&1 | head -0"])
def test_output_that_nobody_takes_costs_nothing(tmp_path: Path, streams: str) -> None:
    """Closed, full or without a reader: the run finishes, and nothing is written elsewhere."""
    command = shlex.join([*TRAIN, "--out", str(tmp_path / "run"), "--epochs", "2"])
    shell = ["bash", "-o", "pipefail", "-c", f"{command} {streams}"]
    ended = subprocess.run(shell, env=_environment(), timeout=240)
    assert ended.returncode == 0
    result = RunFolder(tmp_path / "run").read_result()
    assert result is not None
    assert (result.status, result.epochs) == ("finished", 2)
    assert (tmp_path / "run" / ".lock").read_bytes() == b""


@pytest.mark.parametrize(
    ("name", "locale"), [(b"caf\xc3\xa9", "C"), (b"-x \xff\xfe two\nlines", "C.UTF-8")]
)
def test_folders_may_have_any_name(tmp_path: Path, name: bytes, locale: str) -> None:
    """Names that are not UTF-8, of several lines or like an option are trained into and shown."""
    folder = os.path.join(os.fsencode(tmp_path), name)
    command = [*map(os.fsencode, TRAIN), b"--epochs", b"1", b"--out", folder]
    environment = {**_environment(), "LC_ALL": locale}
    page = str(tmp_path / "report.html")
    report = [sys.executable, "-m", "scalednl", "report", str(tmp_path), "--out", page]
    for arguments in (command, report):
        ended = subprocess.run(arguments, env=environment, capture_output=True, timeout=240)
        assert ended.returncode == 0, ended.stderr
        assert b"Traceback" not in ended.stderr
    result = RunFolder(Path(os.fsdecode(folder))).read_result()
    assert result is not None
    assert result.status == "finished"


def test_two_processes_are_one_run(tmp_path: Path) -> None:
    """Two gloo ranks end with the same weights, recorded once, however they were started.

    Launched by torchrun, by Fabric's own launcher, and by `fabric run`.
    """
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    module = [*torchrun, "-m", "scalednl", "train", "pairs-scaled", *OPTIONS]
    process = _start("--out", str(tmp_path / "torchrun"), "--epochs", "2", module=module)
    output = _end(process)
    assert process.returncode == 0, output
    assert output.count("epoch 1/2") == 1
    process = _start("--out", str(tmp_path / "fabric"), "--epochs", "2", "--devices", "2")
    output = _end(process)
    assert process.returncode == 0, output
    command = [str(Path(sys.executable).with_name("fabric")), "run", "--accelerator", "cpu"]
    command += [
        "--devices",
        "2",
        "--strategy",
        "ddp",
        str(Path(scalednl.__file__).with_name("__main__.py")),
    ]
    options = ["train", "pairs-scaled", *OPTIONS, "--out", str(tmp_path / "run"), "--epochs", "2"]
    process = _start(module=[*command, *options])
    output = _end(process)
    assert process.returncode == 0, output
    for name in ("fabric", "run"):
        assert _same_weights(tmp_path / "torchrun", tmp_path / name)
    for name in ("torchrun", "fabric", "run"):
        folder = RunFolder(tmp_path / name)
        assert [epoch.epoch for epoch in folder.read_epochs()] == [0, 1]
        assert folder.read_config()[1].world == 2
    # The recipe recalibrates: the file has the statistics that both ranks were tested with.
    result = RunFolder(tmp_path / "torchrun").read_result()
    assert result is not None
    found = evaluate_source(tmp_path / "torchrun", None, None, None)
    assert found.test_error_pct == result.test_error_pct.last
    assert found.test_loss == pytest.approx(result.test_loss, rel=1e-5)


def test_gradients_of_two_ranks_are_those_of_the_joined_batch() -> None:
    """With batch norm in evaluation; shards are disjoint and complete. See ddp_worker.py."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    process = _start(module=[*command, "-m", "tests.lab.training.ddp_worker"])
    output = _end(process)
    assert process.returncode == 0, output
    assert "ranks agree" in output
