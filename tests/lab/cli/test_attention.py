"""`scalednl attention` as a person meets it."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from scalednl.inspection import factors
from scalednl.lab.records.attention import read_attention
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
    assert len(json.loads((folder / "attention.json").read_text())["explorer"]["images"]) == 2
    monkeypatch.setattr(factors, "LARGEST_MAP", 100)
    for query in ([], arguments[4:]):
        rows = [*arguments[:2], *query, "--out", str(tmp_path / "rows")]
        code, said = call("attention", str(run), *rows)
        assert code == 0, said
        assert "Its maps are too large to be scored or drawn; single pixels are drawn." in said
        assert {p.name for p in (tmp_path / "rows").glob("*.png")} == {"overlays.png"}


def test_a_photo_has_classes_and_a_page(run: Path, tmp_path: Path, call: Call) -> None:
    """The most probable classes are printed by name, with what was done to the photo."""
    photo, out = _photo(tmp_path / "large.png", 400, 300), tmp_path / "out"
    code, said = call("attention", str(run), "--image", photo, "--out", str(out))
    assert code == 0, said
    assert (
        "large.png: 400 x 300 pixels; shown to the network as 21 x 16 pixels, because it was "
        "trained on 16 x 16" in said
    )
    record = read_attention(out)
    assert record is not None
    (found,) = record.photos
    for one in found.classes:
        row = rf"\| {one.name} +\| +{100 * one.probability:.1f} % \|"
        assert re.search(row, said), said
    assert str(out / "attention.html") in said
    assert "large.png" in (out / "attention.html").read_text()
    code, said = call("attention", str(run), "--image", photo, "--resize", "32", "--json")
    assert code == 0, said
    assert json.loads(said)[0]["photos"][0]["seen_width"] == 43


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
        (["PHOTO"], 2, "photo.png is a picture, not a network"),
        (["PHOTO", "--image", "PHOTO"], 2, "photo.png is a picture, not a network"),
        (["RUN", "--resize", "32"], 2, "--resize 32 is for photos: add --image PHOTO"),
        (["RUN", "--image", "PHOTO", "--resize", "0"], 2, "--resize must be at least 8, got 0"),
        (["RUN", "--image", "PHOTO", "--resize", "9999"], 2, "use --resize 386 or less"),
    ],
)
def test_mistakes_are_sentences(
    run: Path,
    tmp_path: Path,
    refused: Refused,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    """One line that names what was wrong, and no traceback."""
    photo = _photo(tmp_path / "photo.png")
    words = [word.replace("RUN", str(run)).replace("PHOTO", photo) for word in arguments]
    refused(["attention", *words], code, said)


def test_help_has_examples(
    call: Call,
) -> None:
    """The help shows how to call it."""
    code, said = call("attention", "--help")
    assert code == 0
    assert "scalednl attention runs/pairs-scaled-seed0" in said
