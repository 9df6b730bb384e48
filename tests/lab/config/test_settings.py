"""How an experiment is run."""

from typing import Any

import pytest

from scalednl.errors import UsageError
from scalednl.lab.config import RunSettings
from tests.lab.training.builders import SETTINGS


def test_settings_of_older_files_are_read() -> None:
    """Options that are gone are ignored when a run is resumed."""
    old = {**SETTINGS.as_dict(), "nodes": 1}
    assert RunSettings.from_dict(old) == SETTINGS


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"devices": 0}, "--devices must be at least 1, got 0"),
        ({"threads": 0}, "--threads must be 1 to .* on this machine, got 0"),
        ({"checkpoint_minutes": 0.0}, "--checkpoint-minutes must be more than 0 .* got 0.0"),
        ({"checkpoint_minutes": float("nan")}, "--checkpoint-minutes must .* got nan"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], said: str) -> None:
    """The message names the option and what was given."""
    with pytest.raises(UsageError, match=said):
        RunSettings(**changes)
