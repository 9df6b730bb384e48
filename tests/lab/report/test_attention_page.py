"""The page of `scalednl attention`, in a real browser, on photos of different sizes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from scalednl.lab.attention.run import DrawOptions, Written, inspect_sources
from scalednl.lab.records.attention import AttentionRecord
from scalednl.lab.report.attention_page import page_title, write_attention_page
from tests.lab.attention.builders import decode_rows, made_run
from tests.lab.records.builders import RECORD
from tests.lab.report.browser import opened

NAME = "a <b>photo.png"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Two networks, and two photos of which one has a name with markup."""
    place = tmp_path_factory.mktemp("attention")
    runs = [
        made_run(place / kind, attention=kind, blocks=2, heads=2, init=0.5)
        for kind in ("softmax", "scaled")
    ]
    photos = [place / NAME, place / "high.png"]
    for photo, size in zip(photos, ((640, 400), (250, 500)), strict=True):
        Image.effect_noise(size, 99).convert("RGB").save(photo)
    found = inspect_sources(runs, DrawOptions(), photos=photos, out=place / "out", quiet=True)
    records = list(zip(found.folders, found.records, strict=True))
    write_attention_page(records, found.joint / "attention.html")
    return found


@pytest.fixture
def page(written: Written, browser: Browser) -> Iterator[Page]:
    """The page, opened anew."""
    with opened(browser, written.joint / "attention.html") as page:
        yield page


def test_classes_are_those_of_the_record(written: Written, page: Page) -> None:
    """For every photo and network: names and probabilities, and what was done to the photo."""
    shown = page.locator(".classes").all_inner_texts()
    expected = [record.photos[number].classes for number in range(2) for record in written.records]
    assert len(shown) == len(expected) == 4
    for text, classes in zip(shown, expected, strict=True):
        for found in classes:
            assert f"{found.name}\t{100 * found.probability:.1f} %" in text
    hints = " ".join(page.locator("#classes .hint").all_inner_texts())
    assert "640 x 400 pixels; shown to the network as 26 x 16 pixels" in hints
    assert "250 x 500 pixels; shown to the network as 16 x 32 pixels" in hints
    assert page.locator("#classes h3").all_inner_texts() == [NAME, "high.png"]
    assert page.locator("#classes b").count() == 0


def test_photos_of_every_size_are_explored(written: Written, page: Page) -> None:
    """The strongest key of the last query is numpy's, in maps of each photo's own size."""
    for image, (rows, columns) in enumerate(((8, 13), (16, 8))):
        page.locator(".images button").nth(image).click()
        page.locator(".panel canvas").first.focus()
        for _ in range(20):
            page.keyboard.press("ArrowDown")
            page.keyboard.press("ArrowRight")
        drawn = page.eval_on_selector_all(
            ".panel canvas", "all => all.map(c => [c.dataset.query, Number(c.dataset.strongest)])"
        )
        for record, (query, strongest) in zip(written.records, drawn, strict=True):
            assert query == f"{rows - 1},{columns - 1}"
            vectors = record.explorer.images[image].blocks[0]
            softmax = record.source == "softmax"
            weights = decode_rows(vectors, 0, [rows * columns - 1], softmax=softmax)[0]
            assert abs(weights[strongest]) >= np.abs(weights).max() * (1 - 1e-5)


def test_the_legend_has_the_values_of_the_picture(written: Written, page: Page) -> None:
    """From 0 to the largest weight with softmax, from minus to plus without."""
    page.locator(".panel canvas").first.focus()
    page.keyboard.press("ArrowDown")
    queries = page.eval_on_selector_all(".panel canvas", "all => all.map(c => c.dataset.query)")
    for number, (record, query) in enumerate(zip(written.records, queries, strict=True)):
        row, column = map(int, query.split(","))
        vectors = record.explorer.images[0].blocks[0]
        softmax = record.source == "softmax"
        most = np.abs(decode_rows(vectors, 0, [row * 13 + column], softmax=softmax)).max()
        legend = page.locator(".legend").nth(number).locator("span:not(.strip)")
        low, _, high = (
            float(text.replace("\N{MINUS SIGN}", "-")) for text in legend.all_inner_texts()
        )
        assert high == pytest.approx(most, rel=0.06)
        assert low == (0 if softmax else -high)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_every_screen(written: Written, browser: Browser, width: int, scheme: str) -> None:
    """Nothing sticks out, and a high photo fits the window with its query in view."""
    options: dict[str, Any] = {"viewport": {"width": width, "height": 740}, "color_scheme": scheme}
    with opened(browser, written.joint / "attention.html", **options) as page:
        page.locator(".images button").nth(1).click()
        page.locator("summary").first.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        box = page.locator(".panel canvas").first.bounding_box()
        assert box is not None
        assert box["height"] <= 740
        assert box["width"] / box["height"] == pytest.approx(0.5, abs=0.02)
        assert box["width"] >= 150


def test_one_photo_needs_no_choice(written: Written, browser: Browser, tmp_path: Path) -> None:
    """No row of thumbnails, no list of one run: its name is text."""
    record = written.records[1]
    images = replace(record.explorer, images=record.explorer.images[:1])
    alone = replace(record, explorer=images, photos=record.photos[:1])
    out = write_attention_page([(tmp_path, alone)], tmp_path / "page.html")
    with opened(browser, out) as page:
        assert page.locator("h1").inner_text() == NAME
        assert not page.locator(".images").is_visible()
        assert not page.locator(".panel select").is_visible()
        assert page.locator(".panel .name").inner_text().split() == ["scaled", "scaled"]


def test_what_does_not_fit_is_said(tmp_path: Path, browser: Browser) -> None:
    """Without vectors there is no explorer, and a sentence says what would help."""
    record = msgspec.convert(
        {**RECORD, "maps": [], "explorer": {"images": [], "left_out": 1}}, AttentionRecord
    )
    out = write_attention_page([(tmp_path, record)], tmp_path / "page.html")
    with opened(browser, out) as page:
        said = page.locator("#attention").inner_text()
        assert "The explorer would make this page too large: a smaller --resize makes room" in said
        assert "cat" in page.locator(".classes").inner_text()


def test_titles() -> None:
    """The photos, three of them at most; otherwise the data set."""
    record = msgspec.convert(RECORD, AttentionRecord)
    assert page_title(record) == "photo.png"
    assert page_title(replace(record, photos=record.photos * 5)) == ", ".join(
        ["photo.png"] * 3 + ["..."]
    )
    assert page_title(replace(record, data="cifar10")) == "Images of CIFAR-10"
