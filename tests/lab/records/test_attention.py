"""A damaged record of attention is a sentence, never a traceback."""

import copy
import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalednl.errors import CommandError
from scalednl.lab.config import Experiment, PairsConfig
from scalednl.lab.records.attention import (
    AttentionRecord,
    is_current,
    read_attention,
    without_pictures,
    write_attention,
)
from scalednl.lab.records.run import RunFolder, RunSetup
from tests.lab.attention.builders import decode_rows
from tests.lab.records.builders import RECORD, encoded


def _record() -> AttentionRecord:
    return msgspec.convert(RECORD, AttentionRecord)


def test_a_record_is_read_as_written(tmp_path: Path) -> None:
    """What was written comes back, in the same words; where nothing was, there is None."""
    assert read_attention(tmp_path) is None
    write_attention(tmp_path, _record())
    assert read_attention(tmp_path) == _record()
    written = json.loads((tmp_path / "attention.json").read_text())
    assert written.pop("origin")["date"] == ""
    assert written == {"schema": 2, **{k: v for k, v in RECORD.items() if k != "origin"}}


def test_records_from_before_photos_are_read(tmp_path: Path) -> None:
    """A file without photos, titles and sizes of single images is a record."""
    old = _change("photos", ...)
    for image in old["explorer"]["images"]:
        del image["title"]
        for vectors in image["blocks"]:
            del vectors["query_size"], vectors["key_size"]
    (tmp_path / "attention.json").write_text(json.dumps(old))
    assert read_attention(tmp_path) == replace(_record(), photos=())


def test_a_record_without_its_pictures() -> None:
    """The numbers stay; the images count as left out."""
    small = without_pictures(_record())
    assert (small.blocks, small.maps, small.explorer.images) == (_record().blocks, (), ())
    assert small.explorer.left_out == 1


def test_decoding() -> None:
    """theta and phi are whole numbers times scales; rows are f theta . phi, or their softmax."""
    vectors = _record().explorer.images[0].blocks[0]
    assert decode_rows(vectors, 0, [1, 0], softmax=False) == pytest.approx(np.array([[-3], [1.5]]))
    assert decode_rows(vectors, 0, [0], softmax=True) == pytest.approx(np.array([[1]]))


def _change(path: str, value: Any) -> Any:
    """The record with one thing changed, by its path; ... removes it."""
    record = copy.deepcopy({"schema": 2, **RECORD})
    place: Any = record
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in way:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return record


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schema", 1, "has schema 1, and this version reads 2"),
        ("blocks", [], "length >= 1 - at `$.blocks`"),
        ("blocks.0.scores", ..., "missing required field `scores` - at `$.blocks[0]`"),
        ("blocks.0.heads", True, "Expected `int`, got `bool` - at `$.blocks[0].heads`"),
        ("blocks.0.query_size", [0, 2], "Expected `int` >= 1 - at `$.blocks[0].query_size[0]`"),
        ("blocks.0.scores.key_share.mean", None, "got `null` - at `$.blocks[0].scores[...].mean`"),
        ("blocks.0.scores.key_share.mean", 1e308, "key_share has a number above 1e15"),
        ("blocks.0.scores.key_share.low", 0.1, "key_share has half an interval"),
        ("blocks.0.scores.key_share", 3, "got `int` - at `$.blocks[0].scores[...]`"),
        ("blocks.0.head_scores.key_share", [1, 2], "key_share has 2 numbers for 1 heads"),
        ("blocks.0.untrained", {}, "scores and untrained have different names"),
        ("untrained.start", ..., "missing required field `start`"),
        ("ablations.error_pct.unchanged", "x", "at `$.ablations.error_pct[...]`"),
        ("ablations.images", None, "at `$.ablations.images`"),
        ("maps.0.file", "../../secret.png", "at `$.maps[0].file`"),
        ("maps.0.file", "a\0.png", "at `$.maps[0].file`"),
        ("maps.0.head", 1, "head 1, which does not exist"),
        ("maps.0.block", -1, "at `$.maps[0].block`"),
        ("maps.0.block", 1, "block 1, which does not exist"),
        ("explorer.images", {}, "at `$.explorer.images`"),
        ("explorer.images.0.png", "AAAA", "is not a PNG picture"),
        ("explorer.images.0.png", "no base64!", "Invalid base64"),
        ("explorer.images.0.blocks", [], "an image has 0 blocks, not 1"),
        ("explorer.images.0.blocks.0.theta", "AAAA", "theta has 3 bytes"),
        ("explorer.images.0.blocks.0.factor", ["x"], "got `str`"),
        ("explorer.images.0.blocks.0.query_size", [2, 2], "theta has 4 bytes"),
        ("photos.0.classes.0.probability", 1.5, "at `$.photos[0].classes[0].probability`"),
        ("photos.0.height", 0, "at `$.photos[0].height`"),
        ("explorer.images.0.blocks.0.phi_scale", encoded(np.array([np.nan], "<f4")), "not finite"),
    ],
)
def test_damage_is_named(tmp_path: Path, path: str, value: Any, said: str) -> None:
    """Whatever is missing or wrong is named, with the file."""
    (tmp_path / "attention.json").write_text(json.dumps(_change(path, value)))
    with pytest.raises(CommandError, match=r"attention\.json") as caught:
        read_attention(tmp_path)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"schema": NaN}', "\x00"])
def test_files_that_are_no_record(tmp_path: Path, text: str) -> None:
    """A file that is not JSON, or not an object, is a sentence."""
    (tmp_path / "attention.json").write_text(text)
    with pytest.raises(CommandError, match=r"attention\.json"):
        read_attention(tmp_path)


def _paths(value: Any, path: str = "") -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for name, part in items:
        found.append(f"{path}{name}")
        if isinstance(part, (dict, list)):
            found += _paths(part, f"{path}{name}.")
    return found


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(_paths(RECORD)),
    st.sampled_from([None, True, -1, 0, 10**30, 0.5, "", "AAAA", [], [[]], {}, [1], {"a": 1}]),
)
def test_no_change_is_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, path: str, value: Any
) -> None:
    """Anything anywhere in a record either still is one, or is a sentence."""
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "attention.json").write_text(json.dumps(_change(path, value)))
    with suppress(CommandError):
        assert read_attention(folder) is not None


def test_reading_needs_no_torch() -> None:
    """The reader is imported without torch."""
    code = "import sys, scalednl.lab.records.attention; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_current_record_has_enough_images_and_follows_the_training(tmp_path: Path) -> None:
    """Too few images, weights that are newer, damage or no record at all: not current."""
    weights, folder = tmp_path / "weights.safetensors", tmp_path / "attention"
    assert not is_current(tmp_path, 1)
    folder.mkdir()
    write_attention(folder, _record())
    record = folder / "attention.json"
    assert is_current(tmp_path, 1)
    assert not is_current(tmp_path, 2)
    weights.touch()
    os.utime(weights, (record.stat().st_mtime + 10,) * 2)
    assert not is_current(tmp_path, 1)
    os.utime(weights, (record.stat().st_mtime - 10,) * 2)
    assert is_current(tmp_path, 1)
    record.write_text("{")
    assert not is_current(tmp_path, 1)


@pytest.mark.parametrize(
    ("changes", "test_images", "current"),
    [
        ({"pairs": PairsConfig(test_images=1)}, 1, True),
        ({"pairs": PairsConfig(test_images=2)}, 2, False),
        # A limit of the run itself does not limit what is scored.
        ({"pairs": PairsConfig(test_images=2), "test_limit": 1}, 1, False),
        ({"data": "cifar10"}, 1, True),
        ({"data": "cifar10"}, 10_000, False),
        ({"data": "cifar10", "test_limit": 1}, 1, False),
    ],
)
def test_a_small_test_set_is_current_when_all_of_it_is_scored(
    tmp_path: Path, changes: dict[str, Any], test_images: int, current: bool
) -> None:
    """The record has one image; 500 are asked for."""
    experiment = Experiment(**{"data": "pairs", **changes})
    RunFolder(tmp_path).write_config(experiment, RunSetup(test_images=test_images))
    (tmp_path / "attention").mkdir()
    write_attention(tmp_path / "attention", _record())
    assert is_current(tmp_path, 500) is current
