"""The live table of the demonstration."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from scalednl.lab.config import Experiment
from scalednl.lab.demo import training
from scalednl.lab.demo.training import RECIPES
from scalednl.lab.recipes import find_recipe
from scalednl.lab.records.run import Epoch, Result, RunFolder


def _shown(runs: dict[str, tuple[Experiment, RunFolder]], width: int) -> list[str]:
    page = io.StringIO()
    console = Console(file=page, width=width)
    console.print(training._table(runs, wide=training._is_wide(console)))
    return [" ".join(line.split()) for line in page.getvalue().splitlines()]


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, tuple[Experiment, RunFolder]]:
    """The first run has finished its last epoch, the second one of four, the third none."""
    found = {name: (find_recipe(name), RunFolder(tmp_path / name)) for name in RECIPES}
    for name, errors in {"pairs-plain": [80.0, 74.5, 75.0, 73.5], "pairs-softmax": [12.5]}.items():
        folder = found[name][1]
        folder.path.mkdir()
        epochs = [
            Epoch(epoch=n, test_error_pct=error, seconds=61.0, images_per_second=1500.4)
            for n, error in enumerate(errors)
        ]
        folder.write_epochs(epochs)
    return found


def test_a_row_is_the_last_epoch(
    runs: dict[str, tuple[Experiment, RunFolder]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors near 75 % are called chance, the bar is their share, a run without epochs is empty."""
    monkeypatch.setattr(training, "_can_draw", lambda: False)
    _, plain, softmax, scaled = _shown(runs, width=90)
    assert plain == "no block 4/4 73.50 % ##########.... chance 1,500 1 min 01 s"
    assert softmax == "softmax 1/4 12.50 % ##............ 1,500 1 min 01 s"
    assert scaled == "scaled 0/4"


def test_a_narrow_terminal_has_the_errors(
    runs: dict[str, tuple[Experiment, RunFolder]],
) -> None:
    """Bar, speed and time are left out; a damaged file is no epoch."""
    (runs["pairs-softmax"][1].path / "epochs.jsonl").write_text("{")
    assert _shown(runs, width=60)[1:] == ["no block 4/4 73.50 %", "softmax 0/4", "scaled 0/4"]


def test_the_demo_trains_with_and_without_blocks() -> None:
    """The three recipes differ in their block alone, so their seeds pair."""
    plain, softmax, scaled = (find_recipe(name) for name in RECIPES)
    assert plain.blocks == 0
    changes = softmax.differences(scaled)
    assert changes == [
        "recipe is pairs-scaled, not pairs-softmax",
        "block.attention is scaled, not softmax",
    ]


def test_the_speed_is_the_pages(runs: dict[str, tuple[Experiment, RunFolder]]) -> None:
    """A finished run shows the images per second of its result, not those of its last epoch."""
    runs["pairs-plain"][1].write_result(Result(status="finished", images_per_second=1234.5))
    assert "1,234" in _shown(runs, width=90)[1]
    assert "1,500" in _shown(runs, width=90)[2]
