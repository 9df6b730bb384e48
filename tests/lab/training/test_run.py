"""One experiment, one run directory: the same bits however it got there."""

import json
import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file

from scalednl.config import BlockConfig
from scalednl.errors import CommandError, UsageError
from scalednl.lab.attention.record import record_run
from scalednl.lab.records.attention import read_attention
from scalednl.lab.records.run import RunFolder
from scalednl.lab.training import run as run_module
from scalednl.lab.training.devices import make_fabric
from scalednl.lab.training.evaluate import evaluate_source
from scalednl.lab.training.loop import Trainer
from scalednl.lab.training.run import run
from scalednl.lab.training.run_writer import RunWriter, summary
from scalednl.lab.training.setup import experiment_data, initial_model
from scalednl.lab.user_code import load_network
from scalednl.models.weights import load_model
from tests.lab.training.builders import SETTINGS, SMALL, small
from tests.lab.training.own_networks import SOURCE, write_own
from tests.lab.training.runs import assert_same, interrupt_after, interrupted, train, weights_of
from tests.support import assert_close


def test_a_run_leaves_what_the_documentation_says(tmp_path: Path) -> None:
    """Files, schema, errors of every class, origin; the weights give the recorded error."""
    outcome = train(tmp_path / "run", settings=replace(SETTINGS, tensorboard=True))
    assert outcome.status == "finished"
    names = {path.name for path in (tmp_path / "run").iterdir()}
    files = {"config.json", "epochs.jsonl", "result.json", "checkpoints", "weights.safetensors"}
    assert files <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    result = RunFolder(tmp_path / "run").read_result()
    assert result == outcome.result
    assert result.parameters == sum(
        p.numel() for p in load_model(tmp_path / "run" / "weights.safetensors").parameters()
    )
    assert result.epochs == 2
    assert result.steps == 2 * 5
    assert len(result.class_error_pct or ()) == 4
    assert result.origin.threads == 1
    assert (result.test_error_pct.best or 0) <= (result.test_error_pct.last or 0)
    epochs = RunFolder(tmp_path / "run").read_epochs()
    assert [epoch.epoch for epoch in epochs] == [0, 1]
    found = evaluate_source(tmp_path / "run", None, None, None)
    assert found.test_error_pct == result.test_error_pct.last
    assert found.test_loss == pytest.approx(result.test_loss, rel=1e-5)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["schema"] == 1
    assert config["run"]["threads"] == 1
    assert "finished: test error" in summary(result)


def test_the_same_command_gives_the_same_bits(tmp_path: Path) -> None:
    """Twice from the start, whatever torch's global seed is; another seed gives another network."""
    for global_seed, name in enumerate(("one", "two")):
        torch.manual_seed(global_seed)
        train(tmp_path / name)
    assert_same(tmp_path / "one", tmp_path / "two")
    train(tmp_path / "other", small(seed=1))
    assert not torch.equal(
        weights_of(tmp_path / "other")["stem.weight"], weights_of(tmp_path / "one")["stem.weight"]
    )


@pytest.mark.parametrize("steps", [1, 3, 5, 6, 9])
def test_an_interrupted_run_ends_as_if_it_never_was(
    tmp_path: Path,
    whole: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    steps: int,
) -> None:
    """Stopped at any step, in the middle of an epoch or at its end, it resumes to the same bits."""
    with monkeypatch.context() as patch:
        interrupt_after(patch, steps, signal.SIGINT)
        first = train(tmp_path / "cut")
    assert first.status == "interrupted"
    assert first.signal == signal.SIGINT
    assert first.result.steps == steps
    assert RunFolder(tmp_path / "cut").read_result() == first.result
    capsys.readouterr()
    second = run(SMALL, tmp_path / "cut", SETTINGS)
    # Of five steps an epoch.
    where = "its end" if steps % 5 == 0 else f"step {steps % 5 + 1} of 5"
    assert f"resuming at epoch {(steps - 1) // 5 + 1}, {where}" in capsys.readouterr().out
    assert second.status == "finished"
    assert second.result.sessions == 2
    assert_same(whole, tmp_path / "cut")


def test_a_network_from_elsewhere_resumes_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout of its own and random numbers of Python; eval and attention know it too."""
    name = load_network(write_own(tmp_path, "resumed.py"), "build")
    experiment = small(model=name, at=("stem",), recalibrate=2)
    train(tmp_path / "whole", experiment)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 5, signal.SIGINT)
        assert train(tmp_path / "cut", experiment).status == "interrupted"
    torch.manual_seed(8)
    random.seed(8)
    assert train(tmp_path / "cut", experiment).status == "finished"
    assert_same(tmp_path / "whole", tmp_path / "cut")
    found = evaluate_source(tmp_path / "cut")
    result = RunFolder(tmp_path / "cut").read_result()
    assert result is not None
    assert found.test_error_pct == result.test_error_pct.last
    record_run(tmp_path / "cut", images=8, test_images=8)
    attention = read_attention(tmp_path / "cut" / "attention")
    assert attention is not None
    assert [block.name for block in attention.blocks] == ["stem.nonlocal_.0"]
    assert attention.model == name
    assert attention.ablations is not None


def test_a_changed_file_does_not_resume_a_run(tmp_path: Path) -> None:
    """Neither is the network of the changed file tested with the weights of the run."""
    path = write_own(tmp_path, "changed.py")
    experiment = small(model=load_network(path, "build"), at=("stem",), epochs=1)
    train(tmp_path / "run", experiment)
    recorded = RunFolder(tmp_path / "run").read_config()[0]
    assert [entry.partition("=")[0] for entry in recorded.code] == ["changed:build"]
    load_network(write_own(tmp_path, "changed.py", SOURCE.replace("0.2", "0.3")), "build")
    with pytest.raises(UsageError, match="changed:build has changed since this run began"):
        train(tmp_path / "run", recorded)
    with pytest.raises(UsageError, match="changed:build has changed since this run began"):
        evaluate_source(tmp_path / "run")


def test_a_resumed_run_drops_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout too, neither an interruption nor torch's global seed changes a bit."""
    experiment = small(dropout=0.3, recalibrate=2)
    train(tmp_path / "whole", experiment)
    torch.manual_seed(7)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 5, signal.SIGINT)
        assert train(tmp_path / "cut", experiment).status == "interrupted"
    torch.manual_seed(8)
    train(tmp_path / "cut", experiment)
    assert_same(tmp_path / "whole", tmp_path / "cut")
    train(tmp_path / "none", small(recalibrate=2))
    assert not torch.equal(
        weights_of(tmp_path / "none")["stem.weight"], weights_of(tmp_path / "cut")["stem.weight"]
    )


def test_checkpoints_come_every_so_many_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a short time one comes after every step, before tests too; with a long one by epoch."""
    counts = {}
    for minutes in (1e-9, 100.0):
        saved: list[int] = []
        real = RunWriter.save

        def save(self: RunWriter, trainer: Trainer, real: Any = real, saved: Any = saved) -> None:
            saved.append(trainer.state.global_step)
            real(self, trainer)

        with monkeypatch.context() as patch:
            patch.setattr(RunWriter, "save", save)
            train(tmp_path / str(minutes), settings=replace(SETTINGS, checkpoint_minutes=minutes))
        counts[minutes] = saved
    assert counts[1e-9] == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10]
    assert counts[100.0] == [0, 5, 10]
    assert_same(tmp_path / "1e-09", tmp_path / "100.0")


def test_a_finished_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call gives the first one's result without touching a thing."""
    first = train(tmp_path / "run")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")}
    monkeypatch.setattr(run_module, "prepare", None)
    second = train(tmp_path / "run")
    assert second.result.test_error_pct == first.result.test_error_pct
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")} == before


def test_another_experiment_is_kept_out(tmp_path: Path) -> None:
    """A directory belongs to its experiment; the differences are named."""
    train(tmp_path / "run")
    with pytest.raises(UsageError, match=r"holds another experiment \(lr is 0.1, not 0.05\)"):
        train(tmp_path / "run", small(lr=0.05))


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    """While somebody holds the lock, nobody else trains there."""
    (tmp_path / "run").mkdir()
    with (
        FileLock(tmp_path / "run" / ".lock"),
        pytest.raises(CommandError, match="is being trained by another process"),
    ):
        train(tmp_path / "run")


def test_divergence_is_a_result(tmp_path: Path) -> None:
    """Without 1/sqrt(N) the loss explodes: that is recorded, and the last good state is kept.

    The blocks have no batch norm here: it would take the factor out again. With the factor the same
    experiment trains on.
    """
    experiment = small(blocks=6, epochs=1, schedule="steps")
    block = BlockConfig(norm=False, init=0.05, scale=False)
    outcome = train(tmp_path / "without", replace(experiment, block=block))
    assert outcome.status == "diverged"
    at = outcome.result.diverged_at
    assert at is not None
    assert at.global_step == outcome.result.steps
    assert "the loss was not finite at step" in summary(outcome.result)
    json.loads((tmp_path / "without" / "result.json").read_text(), parse_constant=pytest.fail)
    names = sorted(path.name for path in (tmp_path / "without" / "checkpoints").iterdir())
    assert all(int(name) <= at.global_step for name in names)
    good = load_file(tmp_path / "without" / "checkpoints" / names[-1] / "weights.safetensors")
    assert all(torch.isfinite(value).all() for value in good.values())
    assert train(tmp_path / "without", replace(experiment, block=block)).status == "diverged"
    block = replace(block, scale=True)
    assert train(tmp_path / "with", replace(experiment, block=block)).status == "finished"


@pytest.mark.parametrize("parts", [2, 5])
def test_accumulated_parts_are_one_batch(parts: int) -> None:
    """With batch norm in evaluation, a step in parts moves the weights as the whole batch does."""
    moved = []
    for accumulate in (1, parts):
        experiment = small(accumulate=accumulate, lr=1e-3, schedule="steps")
        data = experiment_data(experiment, None)
        trainer = Trainer(experiment, data, initial_model(experiment, 4), make_fabric(SETTINGS))
        trainer.network.eval()
        trainer.train_step(next(trainer.batches.epoch(0)))
        moved.append(trainer.network.state_dict())
    start = initial_model(SMALL, 4).state_dict()
    for name, value in start.items():
        if value.is_floating_point():
            assert_close(moved[1][name] - value, moved[0][name] - value, 1e-3, name)


def test_mixed_precision_trains(tmp_path: Path) -> None:
    """bf16 on a CPU finishes with finite weights and loss, other than fp32's; fp16 is refused."""
    for precision in ("fp32", "bf16"):
        outcome = train(tmp_path / precision, small(precision=precision))
        assert outcome.status == "finished"
    found = evaluate_source(tmp_path / "bf16", None, None, None)
    assert found.test_loss is not None
    assert 0 <= found.test_error_pct <= 100
    single, mixed = weights_of(tmp_path / "fp32"), weights_of(tmp_path / "bf16")
    assert all(value.isfinite().all() for value in mixed.values())
    assert not torch.equal(mixed["stem.weight"], single["stem.weight"])
    with pytest.raises(CommandError, match="fp16 training needs a GPU"):
        train(tmp_path / "fp16", small(precision="fp16"))
    assert not (tmp_path / "fp16").exists()


def test_what_cannot_work_writes_nothing(tmp_path: Path) -> None:
    """Impossible combinations and missing data are refused before a directory is made."""
    cases = [
        (small(block=BlockConfig(heads=5)), UsageError, "heads"),
        (small(batch=200), UsageError, "--batch must be at most 150, the training images, got 200"),
        (small(limit=151), UsageError, "--limit must be at most 150, the training images, got 151"),
        (small(data="cifar10"), CommandError, "run `scalednl data get cifar10"),
        (small(model="preresnet9"), UsageError, "preresnet9 does not exist"),
    ]
    for experiment, kind, said in cases:
        with pytest.raises(kind, match=said):
            run(experiment, tmp_path / "run", SETTINGS, root=tmp_path / "data", quiet=True)
        assert not (tmp_path / "run" / "config.json").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="cannot be written"):
        train(tmp_path / "file" / "run")


def test_every_process_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that ended before their first checkpoint."""
    interrupted(tmp_path / "run", monkeypatch)
    before = RunFolder(tmp_path / "run").read_result()
    assert before is not None

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        with monkeypatch.context() as patched:
            patched.setattr(Trainer, "train_step", die)
            with pytest.raises(KeyboardInterrupt):
                train(tmp_path / "run")
    assert train(tmp_path / "run").result.sessions == before.sessions + 4


def test_useless_weights_are_divergence(tmp_path: Path) -> None:
    """A test loss that is not finite is not recorded as an error of a finished run."""
    outcome = train(tmp_path / "run", small(epochs=1, batch=150, lr=1e38, schedule="steps"))
    assert outcome.status == "diverged"
    assert outcome.result.test_error_pct.last is None


def test_a_run_in_parts_can_be_evaluated(tmp_path: Path) -> None:
    """What training needed of a batch is nothing to a test."""
    train(tmp_path / "run", small(epochs=1, accumulate=2))
    assert evaluate_source(tmp_path / "run", None, None, None).images == 40
