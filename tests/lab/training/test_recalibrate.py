"""Recalibrated batch norm statistics: used for tests and final weights, invisible to training."""

import json
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from scalednl.errors import UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.records.run import RunFolder
from scalednl.lab.training.evaluate import evaluate_source
from scalednl.lab.training.recalibrate import recalibrated
from scalednl.lab.training.run import RunOutcome, run
from tests.lab.training.builders import SETTINGS, small
from tests.lab.training.runs import assert_same, interrupt_after

ON = small(recalibrate=3, epochs=2)


def _run(path: Path, experiment: Experiment = ON) -> RunOutcome:
    return run(experiment, path, SETTINGS, quiet=True)


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupts, for all that were."""
    path = tmp_path_factory.mktemp("complete") / "run"
    assert _run(path).status == "finished"
    return path


def _is_statistic(name: str) -> bool:
    return name.endswith(("running_mean", "running_var", "num_batches_tracked"))


def test_statistics_are_averages_over_the_batches() -> None:
    """Inside, means and variances are plain averages of the batches'; afterwards the old ones."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3).eval()
    norm(torch.randn(4, 3, 5, 5))
    batches = [torch.randn(4, 3, 5, 5) * scale + scale for scale in (1.0, 2.0, 5.0)]
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    with recalibrated(norm, batches, keep=False):
        means = torch.stack([batch.mean((0, 2, 3)) for batch in batches]).mean(0)
        variances = torch.stack([batch.var((0, 2, 3)) for batch in batches]).mean(0)
        torch.testing.assert_close(norm.running_mean, means)
        torch.testing.assert_close(norm.running_var, variances)
        assert not norm.training
    assert all(torch.equal(norm.state_dict()[name], value) for name, value in before.items())
    assert norm.momentum == 0.1
    with recalibrated(norm, batches, keep=True):
        pass
    torch.testing.assert_close(norm.running_mean, means)


def test_training_does_not_notice(tmp_path: Path, complete: Path) -> None:
    """With and without it, losses and parameters are the same to the bit; final statistics not."""
    _run(tmp_path / "off", small(epochs=2))
    runs = (complete, tmp_path / "off")
    on, off = (load_file(path / "weights.safetensors") for path in runs)
    for name, value in on.items():
        assert torch.equal(value, off[name]) != _is_statistic(name), name
    epochs = [RunFolder(path).read_epochs() for path in runs]
    for one, two in zip(*epochs, strict=True):
        assert one.train_loss == two.train_loss
        assert one.test_loss != two.test_loss
    # The first epoch's checkpoint has training's own statistics.
    first = "checkpoints/00000005/weights.safetensors"
    one, two = (load_file(path / first) for path in runs)
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("steps", [3, 5, 6, 10])
def test_an_interrupted_run_ends_as_if_it_never_was(
    tmp_path: Path, complete: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Stopped at any step it ends with the same weights, statistics and errors to the bit."""
    with monkeypatch.context() as patch:
        interrupt_after(patch, steps, signal.SIGINT)
        assert _run(tmp_path / "cut").status == "interrupted"
    assert _run(tmp_path / "cut").status == "finished"
    assert_same(complete, tmp_path / "cut")


def test_eval_gives_the_recorded_number(tmp_path: Path) -> None:
    """The final weights carry the statistics of the last test, also if records had to be redone."""
    result = _run(tmp_path / "run").result
    for _ in range(2):
        found = evaluate_source(tmp_path / "run", None, None, None)
        assert found.test_error_pct == result.test_error_pct.last
        assert found.test_loss == result.test_loss
        # As if the process had been killed between the last checkpoint and the final weights.
        (tmp_path / "run" / "weights.safetensors").unlink()
        (tmp_path / "run" / "result.json").unlink()
        assert _run(tmp_path / "run").status == "finished"


def test_the_option_belongs_to_the_experiment(tmp_path: Path) -> None:
    """0 is the experiment that older files describe; another number is another cell."""
    values = small().as_dict()
    del values["recalibrate"]
    assert Experiment.from_dict(json.loads(json.dumps(values))) == small()
    assert small(recalibrate=3).cell != small().cell
    with pytest.raises(UsageError, match="--recalibrate must be at least 0, got -1"):
        small(recalibrate=-1)
    _run(tmp_path / "run")
    with pytest.raises(UsageError, match=r"another experiment \(recalibrate is 3, not 0\)"):
        _run(tmp_path / "run", small(epochs=2))
