"""Losses of a seeded training, as recorded: what is reorganised must not change a number."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.config import NonLocalConfig
from scalednl.lab.training.run import run
from tests.lab.training.builders import SETTINGS, SMALL

BLOCK = SMALL.block
GOLDEN: dict[str, tuple[NonLocalConfig, float, float]] = {
    "plain": (replace(BLOCK, blocks=0), 2.8910937245686847, 2.12933349609375),
    "scaled": (BLOCK, 2.8345323181152344, 5.501684188842773),
    "softmax": (replace(BLOCK, attention="softmax"), 3.6234373982747394, 6.058220672607422),
    "magnitude": (replace(BLOCK, view="magnitude"), 3.0658031209309895, 15.923870849609376),
    "direction": (replace(BLOCK, view="direction"), 2.879294738769531, 9.837606048583984),
}
"""Mean training loss of the first epoch and test loss after it, on one thread"""


@pytest.mark.parametrize("name", GOLDEN)
def test_a_seeded_training_gives_the_recorded_losses(name: str, tmp_path: Path) -> None:
    """Losses on `pairs` are those recorded; between processors only the last digits may differ."""
    block, train_loss, test_loss = GOLDEN[name]
    run(replace(SMALL, block=block), tmp_path / "run", SETTINGS, quiet=True)
    first = json.loads((tmp_path / "run" / "epochs.jsonl").read_text().splitlines()[0])
    assert first["train_loss"] == pytest.approx(train_loss, rel=1e-4)
    assert first["test_loss"] == pytest.approx(test_loss, rel=1e-2)
