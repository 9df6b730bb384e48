"""When a run is tested, and what it stores of that."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from scalednl.lab.data.splits import ImageData, Split
from scalednl.lab.records.run import ErrorSummary, RunFolder
from scalednl.lab.training.evaluate import test_batches as batches_of_tests
from scalednl.lab.training.run import run
from scalednl.lab.training.run_writer import summary
from scalednl.lab.training.setup import experiment_data
from scalednl.models.weights import load_model
from tests.lab.training.builders import SETTINGS, small


def test_tests_may_wait_for_the_last_epochs(tmp_path: Path) -> None:
    """Without the early tests, the weights and the last errors are the same bits."""
    every, late = tmp_path / "every", tmp_path / "late"
    run(small(epochs=4), every, SETTINGS, quiet=True)
    outcome = run(small(epochs=4, test_last=2), late, SETTINGS, quiet=True)
    one, two = (RunFolder(path).read_epochs() for path in (every, late))
    assert [epoch.test_error_pct for epoch in two[:2]] == [None, None]
    for epoch in (2, 3):
        assert one[epoch].test_error_pct == two[epoch].test_error_pct
        assert one[epoch].test_loss == two[epoch].test_loss
    errors = outcome.result.test_error_pct
    assert errors.last == one[3].test_error_pct
    assert errors.best == min(one[epoch].test_error_pct or 0.0 for epoch in (2, 3))
    mine, theirs = (load_model(path / "weights.safetensors").state_dict() for path in (every, late))
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_a_run_without_a_test_yet_says_so(tmp_path: Path) -> None:
    """Interrupted before its first test, a run has errors of None and a sentence."""
    run(small(epochs=1, test_last=1), tmp_path, SETTINGS, quiet=True)
    result = RunFolder(tmp_path).read_result()
    assert result is not None
    cut = replace(result, status="interrupted", test_error_pct=ErrorSummary())
    assert summary(cut) == "interrupted before its first test"


def test_stored_predictions_give_the_recorded_error(tmp_path: Path) -> None:
    """One byte per test image in the order of the split; counting mistakes gives the error."""
    experiment = small()
    outcome = run(experiment, tmp_path, SETTINGS, quiet=True)
    predictions = RunFolder(tmp_path).read_predictions()
    assert predictions is not None
    assert predictions.dtype == np.uint8
    data = experiment_data(experiment, None)
    assert len(predictions) == len(data.test)
    wrong = 100 * float((predictions != data.test.labels).mean())
    assert wrong == pytest.approx(outcome.result.test_error_pct.last)
    model = load_model(tmp_path / "weights.safetensors").eval()
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with torch.no_grad():
        again = [
            model(batch.images).argmax(1) for batch in batches_of_tests(experiment, data).epoch(0)
        ]
    assert predictions.tolist() == torch.cat(again).tolist()


def test_ranks_put_their_predictions_together() -> None:
    """Parts of two ranks cover every image once, each at its place."""
    labels = np.arange(23) % 4
    split = Split(np.zeros((23, 8, 8, 3), np.uint8), labels)
    data = ImageData("x", split, split, list("abcd"), (0.5,) * 3, (0.25,) * 3)
    seen = np.full(23, -1)
    for rank in range(2):
        batches = batches_of_tests(small(), data, rank=rank, world=2)
        for batch in batches.epoch(0):
            place = slice(batch.first, batch.first + len(batch.labels))
            assert (seen[place] == -1).all()
            seen[place] = batch.labels.numpy()
    assert seen.tolist() == labels.tolist()
