"""The record says what the network does, in a form that needs no torch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scalednl.inspection.scores import SOFTMAX_ONLY
from scalednl.lab.attention import explorer
from scalednl.lab.attention.record import explore, record_run, write_record
from scalednl.lab.attention.scoring import observe, score, score_blocks
from scalednl.lab.attention.source import open_source
from scalednl.lab.records.attention import AttentionRecord, read_attention
from scalednl.lab.records.run import RunFolder
from scalednl.lab.training.evaluate import evaluate_source
from tests.lab.attention.builders import decode_rows, made_run

SCORES = {
    *("key_share", "vertical_share", "length_rank", "cosine_rank", "query_angles"),
    "long_keys_share",
    *("query_dependence", "rank_one_energy", "kept_by_magnitude", "kept_by_direction"),
}


def _record(path: Path, **options: Any) -> AttentionRecord:
    record_run(path, **options)
    record = read_attention(RunFolder(path).attention)
    assert record is not None
    return record


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attention": "softmax", "softmax_scale": "learned", "init": 0.5, "key_pool": "before"},
        {"attention": "mean", "view": "magnitude", "heads": 2},
    ],
    ids=str,
)
def test_a_record_gives_back_every_row(tmp_path: Path, options: dict[str, Any]) -> None:
    """Rows decoded from few bits differ from the network's by no more than the record says."""
    path = made_run(tmp_path / "run", blocks=1, **options)
    record = _record(path, images=2)
    observed = observe(open_source(path))
    assert len(record.explorer.images) == len(observed) == 6
    softmax = record.blocks[0].attention == "softmax"
    for image, seen_image in zip(record.explorer.images, observed, strict=True):
        for vectors, seen in zip(image.blocks, seen_image.blocks, strict=True):
            for head in range(seen.block.heads):
                queries = range(seen.factors.queries)
                found = decode_rows(vectors, head, queries, softmax=softmax)
                exact = seen.map(0, head).numpy()
                error = np.abs(found - exact).max(1) / np.abs(exact).max(1)
                assert error.max() <= vectors.row_error + 1e-4
            assert vectors.row_error < 0.01


def test_what_a_record_holds(tmp_path: Path) -> None:
    """Scores with intervals for every block and head, errors as `scalednl eval` finds, pictures."""
    path = made_run(tmp_path / "run")
    record = _record(path)
    assert (record.source, record.recipe, record.data) == ("run", "small", "pairs")
    assert record.images_scored == 40
    assert [block.name for block in record.blocks] == ["stack.0", "stack.1"]
    source = open_source(path)
    scores = score_blocks(source, source.model, source.name)
    for block, found in zip(record.blocks, scores, strict=True):
        assert set(block.scores) == set(block.untrained) == SCORES
        summary = block.scores["key_share"]
        assert summary.n == 40
        assert (summary.low or 1) <= summary.mean <= (summary.high or 0)
        assert summary.mean == pytest.approx(float(found.maps["key_share"].mean()))
        heads = block.head_scores["query_angles"]
        assert np.mean(heads) == pytest.approx(block.scores["query_angles"].mean)
    assert record.ablations is not None
    assert record.ablations.images == 40
    error = evaluate_source(path, None, None, None).test_error_pct
    assert record.ablations.error_pct["unchanged"] == error
    folder = RunFolder(path).attention
    assert len(record.maps) == 2 * 4 * 2
    for picture in record.maps:
        with Image.open(folder / picture.file) as image:
            assert image.size == (64, 64)
    assert str(tmp_path) not in (folder / "attention.json").read_text()


def test_softmax_has_more_scores(tmp_path: Path) -> None:
    """Shares of attention exist for weights without signs only."""
    path = made_run(tmp_path / "run", attention="softmax", blocks=1)
    (block,) = _record(path, images=2, test_images=2).blocks
    assert set(block.scores) == SCORES | set(SOFTMAX_ONLY)


def test_an_explorer_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images that would make it too large are left out, and counted."""
    monkeypatch.setattr(explorer, "LARGEST", 60_000)
    found = _record(made_run(tmp_path / "run"), images=2).explorer
    assert 0 < len(found.images) < 6
    assert found.left_out == 6 - len(found.images)


def test_photos_of_several_sizes_are_explored(tmp_path: Path) -> None:
    """Each has its classes and what was done to it; its rows come from maps of its own size."""
    path = made_run(tmp_path / "run", blocks=1)
    photos = [tmp_path / "wide.png", tmp_path / "high.png"]
    for photo, size in zip(photos, ((64, 32), (24, 48)), strict=True):
        Image.effect_noise(size, 99).save(photo)
    source = open_source(path, photos=photos)
    observed = observe(source)
    write_record(source, observed, score(source), tmp_path / "out")
    record = read_attention(tmp_path / "out")
    assert record is not None
    for shown, size, seen, observation in zip(
        record.photos, ((32, 64), (48, 24)), ((16, 32), (32, 16)), observed, strict=True
    ):
        assert (shown.height, shown.width) == size
        assert (shown.seen_height, shown.seen_width) == seen
        assert shown.classes[0].name == observation.predicted
        shares = [found.probability for found in shown.classes]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1)
    images = record.explorer.images
    assert [image.title for image in images] == ["wide.png", "high.png"]
    assert [image.blocks[0].query_size for image in images] == [None, (16, 8)]
    exact = observed[1].blocks[0].map(0, 0).numpy()
    found = decode_rows(images[1].blocks[0], 0, range(128), softmax=False)
    assert np.abs(found - exact).max() <= 0.01 * np.abs(exact).max()


def test_large_pictures_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures count too: a record of many photos stays small enough to be read."""
    path = made_run(tmp_path / "run", blocks=1)
    Image.effect_noise((400, 300), 99).save(tmp_path / "photo.png")
    source = open_source(path, photos=[tmp_path / "photo.png"] * 3)
    observed = observe(source)
    size = len(explorer.encode_png(observed[0].picture.shown))
    monkeypatch.setattr(explorer, "LARGEST_PICTURES", 2 * size)
    found = explore(observed)
    assert (len(found.images), found.left_out) == (2, 1)
