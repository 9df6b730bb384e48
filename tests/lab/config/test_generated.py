"""Options of generated images."""

from typing import Any

import pytest

from scalednl.errors import UsageError
from scalednl.lab.config.generated import PairsConfig, RecallConfig


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"patch": 17}, "patch=17 does not fit into height=16"),
        ({"jitter": 14}, "width=40 has no room for two gratings of patch=7 and jitter=14"),
        ({"jitter": -1}, "jitter at least 0"),
        ({"orientations": 1}, "orientations must be in 2 to 64, got 1"),
        ({"noise": -1.0}, "noise must be in 0 to 1000, got -1.0"),
        ({"noise": float("nan")}, "got nan"),
        ({"train_images": 0}, "train_images must be at least 1, got 0"),
    ],
)
def test_invalid_options_of_pairs_are_refused(options: dict[str, Any], said: str) -> None:
    """Each is named with what would work."""
    with pytest.raises(UsageError, match=said):
        PairsConfig(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"colours": 7}, "colours must be in 1 to 6, got 7"),
        ({"per_side": 4}, "per_side must be in 1 to 3, got 4"),
        ({"per_side": 3}, "height must be at least per_side . patch = 21"),
        ({"orientations": 1}, "recall: orientations must be in 2 to 64, got 1"),
        ({"jitter": 14}, "width=40 has no room"),
        ({"test_images": 0}, "test_images must be at least 1, got 0"),
    ],
)
def test_invalid_options_of_recall_are_refused(options: dict[str, Any], said: str) -> None:
    """Each is named with what would work."""
    with pytest.raises(UsageError, match=said):
        RecallConfig(**options)


def test_the_gap_is_what_patches_and_jitter_leave() -> None:
    """The defaults have 24 columns between the gratings; none is the least that fits."""
    assert PairsConfig().gap == RecallConfig().gap == 24
    assert PairsConfig(width=16, patch=7, jitter=1).gap == 0
    with pytest.raises(UsageError, match="width=15 has no room"):
        PairsConfig(width=15, patch=7, jitter=1)


def test_orientations_are_classes() -> None:
    """`pairs` has four of them, `recall` two."""
    assert (PairsConfig().classes, RecallConfig().classes) == (4, 2)
    assert PairsConfig(orientations=6).classes == 6
