"""What is written while a run is trained."""

from itertools import count
from pathlib import Path

import pytest

from scalednl.lab.records.run import RunFolder
from scalednl.lab.training import run_writer
from scalednl.lab.training.run import run
from tests.lab.training.builders import SETTINGS, small


def test_the_result_that_is_returned_is_the_one_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that grows while a run ends does not make them differ."""
    sizes = count(10**6)
    monkeypatch.setattr(run_writer, "peak_bytes", lambda _: next(sizes))
    found = run(small(epochs=1), tmp_path / "run", SETTINGS, quiet=True).result
    assert RunFolder(tmp_path / "run").read_result() == found
    assert "after 1 epoch (best" in run_writer.summary(found)
