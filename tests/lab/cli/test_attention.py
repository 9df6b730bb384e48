"""`scalednl attention` as a person meets it."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from scalednl.inspection import factors
from tests.lab.attention.builders import made_run
from tests.lab.cli.conftest import Call, Refused


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one scaled block of two heads."""
    return made_run(tmp_path_factory.mktemp("runs") / "scaled", blocks=1, heads=2)


def _photo(path: Path, width: int = 20, height: int = 12) -> str:
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return str(path)


def test_two_runs_side_by_side(run: Path, tmp_path: Path, call: Call) -> None:
    """A table and a record for each, and joint figures as PNG and SVG."""
    other = made_run(tmp_path / "softmax", attention="softmax", blocks=1, heads=2, init=0.5)
    out = tmp_path / "out"
    arguments = ["attention", str(other), str(run), "--images", "8", "--out", str(out)]
    arguments += ["--test-images", "16"]
    code, said = call(*arguments)
    assert code == 0, said
    assert "softmax: preresnet8, on 8 images of pairs" in said
    assert "| key_share           |" in said
    assert "stack.0 (scaled)" in said
    assert "untrained: initialised with the run's seed 0" in said
    assert "error on 16 test images, %" in said
    assert "| column_mean " in said
    for name in ("figure1", "overlays"):
        with Image.open(out / f"{name}.png") as image:
            assert min(image.size) > 300
        ElementTree.parse(out / f"{name}.svg")
    for name in ("softmax", "scaled"):
        assert json.loads((out / name / "attention.json").read_text())["source"] == name


def test_photos_json_and_weights(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    """A weights file needs no data for photos of any size; --json prints what was found."""
    weights = str(run / "weights.safetensors")
    photos = [_photo(tmp_path / "a.png"), _photo(tmp_path / "b.png", 16, 16)]
    arguments = ["--image", photos[0], "--image", photos[1], "--query", "11,19", "--head", "1"]
    code, said = call("attention", weights, *arguments[:4], "--block", "stack.0", "--json")
    assert code == 0, said
    (found,) = json.loads(said)
    assert (found["images_scored"], found["data"], found["ablations"]) == (2, None, None)
    assert "seed 0, because a weights file" in found["untrained"]["start"]
    assert found["blocks"][0]["untrained"].keys() == found["blocks"][0]["scores"].keys()
    assert found["blocks"][0]["query_size"] == [6, 10]
    folder = run / "weights-attention-a"
    assert {"figure1.png", "figure1-1.svg", "overlays-1.png"} <= {p.name for p in folder.iterdir()}
    assert len(json.loads((folder / "attention.json").read_text())["explorer"]["images"]) == 1
    monkeypatch.setattr(factors, "LARGEST_MAP", 100)
    code, said = call("attention", str(run), *arguments[:2])
    assert code == 2
    assert "60 x 60 = 3,600 entries" in said
    assert "--query ROW,COLUMN" in said
    rows = [*arguments[:2], *arguments[4:], "--out", str(tmp_path / "rows")]
    code, said = call("attention", str(run), *rows)
    assert code == 0, said
    assert "Its maps are too large to be scored." in said
    assert {p.name for p in (tmp_path / "rows").glob("*.png")} == {"overlays.png"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "name a run directory"),
        (["nowhere"], 1, "nowhere does not exist"),
        (["nowhere", "--data", "pairs"], 1, "nowhere does not exist"),
        (["RUN", "--block", "3"], 2, "block 3 does not exist: there are 0 (stack.0)"),
        (["RUN", "--block", "x"], 2, "block x does not exist: there are 0 (stack.0)"),
        (["RUN", "--head", "2"], 2, "head 2 does not exist: stack.0 has heads 0 to 1"),
        (["RUN", "--query", "16,0"], 2, "--query 16,0 is outside: test image"),
        (["RUN", "--query", "3"], 2, "--query 3 is not ROW,COLUMN"),
        (["RUN", "--images", "0"], 2, "--images must be at least 1, got 0"),
        (["RUN", "--test-images", "0"], 2, "--test-images must be at least 1, got 0"),
        (["RUN", "--threads", "0"], 2, "on this machine, got 0"),
        (["RUN", "--image", "nothing.png"], 2, "--image nothing.png does not exist"),
        (["RUN", "--data", "cifar11"], 2, "did you mean 'cifar10'"),
        (["RUN", "--images", "2", "--out", "/proc/nowhere"], 1, "/proc/nowhere cannot be written"),
        (["RUN/weights.safetensors"], 2, "add --data NAME, or --image PHOTO"),
    ],
)
def test_mistakes_are_sentences(
    run: Path,
    refused: Refused,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    """One line that names what was wrong, and no traceback."""
    words = [word.replace("RUN", str(run)) for word in arguments]
    refused(["attention", *words], code, said)


def test_help_has_examples(
    call: Call,
) -> None:
    """The help shows how to call it."""
    code, said = call("attention", "--help")
    assert code == 0
    assert "scalednl attention runs/pairs-scaled-seed0" in said
