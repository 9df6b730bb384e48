"""`scalednl eval` as a person meets it."""

import json
from pathlib import Path

from tests.lab.attention.builders import made_run
from tests.lab.cli.conftest import Call, Refused


def test_a_run_and_its_weights_have_one_error(tmp_path: Path, call: Call) -> None:
    """Text and JSON show the same numbers; --classes adds one line per class, --limit is kept."""
    run = made_run(tmp_path / "run")
    code, text = call("eval", str(run), "--json")
    assert code == 0, text
    found = json.loads(text)
    assert (found["data"], found["images"]) == ("pairs", 40)
    code, text = call("eval", str(run), "--classes")
    assert f"test error {found['test_error_pct']:.2f} %" in text.splitlines()[0]
    assert len(text.splitlines()) == 1 + len(found["class_error_pct"])
    code, text = call("eval", str(run), "--limit", "20", "--json")
    assert json.loads(text)["images"] == 20


def test_eval_names_what_it_cannot_use(tmp_path: Path, refused: Refused) -> None:
    """Nothing there, no weights in a folder, no data set named, another number of classes."""
    (tmp_path / "empty").mkdir()
    run = made_run(tmp_path / "run")
    (tmp_path / "bad.safetensors").write_bytes(b"hello")
    cases = [
        ([str(tmp_path / "none"), "--data", "pairs"], 1, "does not exist"),
        ([str(tmp_path / "none")], 1, "does not exist"),
        ([str(tmp_path / "empty")], 1, "contains no weights"),
        ([str(run / "weights.safetensors")], 2, "add --data NAME"),
        ([str(run), "--limit", "41"], 2, "--limit must be at most 40, the test images, got 41"),
        ([str(tmp_path / "none"), "--limit", "0"], 2, "--limit must be at least 1, got 0"),
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
