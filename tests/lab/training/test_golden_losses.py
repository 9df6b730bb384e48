"""Losses of a seeded training, as recorded: what is reorganised must not change a number."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalednl.lab.config import Experiment
from scalednl.lab.training.run import run
from tests.lab.training.builders import SETTINGS, SMALL, small


def _with(**options: Any) -> Experiment:
    """The small experiment with other blocks."""
    return small(block=replace(SMALL.block, **options))


GOLDEN: dict[str, tuple[Experiment, float, float]] = {
    "plain": (small(blocks=0), 2.8910937245686847, 2.12933349609375),
    "scaled": (SMALL, 2.8345323181152344, 5.501684188842773),
    "softmax": (_with(attention="softmax"), 3.6234373982747394, 6.058220672607422),
    "magnitude": (_with(view="magnitude"), 3.0658031209309895, 15.923870849609376),
    "direction": (_with(view="direction"), 2.879294738769531, 9.837606048583984),
}
"""Mean training loss of the first epoch and test loss after it, on one thread"""


@pytest.mark.parametrize("name", GOLDEN)
def test_a_seeded_training_gives_the_recorded_losses(name: str, tmp_path: Path) -> None:
    """Losses on `pairs` are those recorded; between processors only the last digits may differ."""
    experiment, train_loss, test_loss = GOLDEN[name]
    run(experiment, tmp_path / "run", SETTINGS, quiet=True)
    first = json.loads((tmp_path / "run" / "epochs.jsonl").read_text().splitlines()[0])
    assert first["train_loss"] == pytest.approx(train_loss, rel=1e-4)
    assert first["test_loss"] == pytest.approx(test_loss, rel=1e-2)
