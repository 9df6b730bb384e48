"""`scalednl eval` as a person meets it."""

import json
from pathlib import Path
from typing import Any

import pytest

from scalednl.config import BlockConfig
from scalednl.lab.training.run import run
from tests.lab.attention.builders import made_run
from tests.lab.cli.conftest import Call, Refused
from tests.lab.training.builders import SETTINGS, small

SIZE = 16, 64
"""Rows of the images of `made_run`, and pixels of its blocks' maps"""


def test_a_run_and_its_weights_have_one_error(tmp_path: Path, call: Call) -> None:
    """Text and JSON show the same numbers; --classes adds one line per class, --limit is kept."""
    made = made_run(tmp_path / "run")
    code, text = call("eval", str(made), "--json")
    assert code == 0, text
    found = json.loads(text)
    assert (found["data"], found["images"]) == ("pairs", 40)
    code, text = call("eval", str(made), "--classes")
    assert f"test error {found['test_error_pct']:.2f} %" in text.splitlines()[0]
    assert len(text.splitlines()) == 1 + len(found["class_error_pct"])
    code, text = call("eval", str(made), "--limit", "20", "--json")
    assert json.loads(text)["images"] == 20


def test_other_sizes_and_a_branch_that_does_not_grow(tmp_path: Path, call: Call) -> None:
    """At the training's own size neither option changes anything; at twice the size both do."""
    made = made_run(tmp_path / "run")
    _, text = call("eval", str(made), "--json")
    native = json.loads(text)
    side, pixels = SIZE

    def tested(size: int, *options: str) -> dict[str, Any]:
        code, text = call("eval", str(made), "--json", "--size", str(size), *options)
        assert code == 0, text
        found: dict[str, Any] = json.loads(text)
        assert found["size"] == size
        return found

    keep = ("--reference-pixels", str(pixels))
    for same in (tested(side), tested(side, *keep)):
        assert same["test_error_pct"] == native["test_error_pct"]
        assert same["test_loss"] == pytest.approx(native["test_loss"], rel=1e-4)
    grown, steady = tested(2 * side), tested(2 * side, *keep)
    assert steady["reference_pixels"] == pixels
    losses = {found["test_loss"] for found in (native, grown, steady)}
    assert len(losses) == 3, losses
    _, text = call("eval", str(made), "--size", "32")
    assert "of pairs at 32 px" in text


def test_reference_pixels_need_blocks_that_take_them(tmp_path: Path, refused: Refused) -> None:
    """A plain network and softmax blocks are refused with a sentence."""
    run(small(epochs=1, blocks=0), tmp_path / "plain", SETTINGS, quiet=True)
    softmax = BlockConfig(attention="softmax", norm_init=1.0)
    run(small(epochs=1, block=softmax), tmp_path / "softmax", SETTINGS, quiet=True)
    options = ["--reference-pixels", "64"]
    refused(["eval", str(tmp_path / "plain"), *options], 2, "the network has none")
    refused(["eval", str(tmp_path / "softmax"), *options], 2, "reference_pixels")


def test_eval_names_what_it_cannot_use(tmp_path: Path, refused: Refused) -> None:
    """Nothing there, no weights in a folder, no data set named, another number of classes."""
    (tmp_path / "empty").mkdir()
    made = made_run(tmp_path / "run")
    (tmp_path / "bad.safetensors").write_bytes(b"hello")
    cases = [
        ([str(tmp_path / "none"), "--data", "pairs"], 1, "does not exist"),
        ([str(tmp_path / "none")], 1, "does not exist"),
        ([str(tmp_path / "empty")], 1, "contains no weights"),
        ([str(made / "weights.safetensors")], 2, "add --data NAME"),
        ([str(made), "--limit", "41"], 2, "--limit must be at most 40, the test images, got 41"),
        ([str(tmp_path / "none"), "--limit", "0"], 2, "--limit must be at least 1, got 0"),
        ([str(made), "--size", "0"], 2, "--size must be at least 1, got 0"),
        ([str(made), "--reference-pixels", "-4"], 2, "--reference-pixels must be at least 1"),
        (["x" * 300, "--data", "pairs"], 1, "cannot be read"),
        ([str(tmp_path / "empty"), "--data", "pairs"], 1, "contains no weights"),
        (
            [str(tmp_path / "bad.safetensors"), "--data", "pairs"],
            1,
            "not a complete safetensors file",
        ),
    ]
    for arguments, code, said in cases:
        refused(["eval", *arguments], code, said)
