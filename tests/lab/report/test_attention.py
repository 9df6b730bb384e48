"""The explorer of attention in a real browser, on a really trained block."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from scalednl.lab.attention.record import record_run
from scalednl.lab.config import RunSettings
from scalednl.lab.recipes import find_recipe
from scalednl.lab.records.attention import read_attention
from scalednl.lab.report.formatting import score_number
from scalednl.lab.report.write import write_report
from scalednl.lab.training.run import run
from tests.lab.attention.builders import decode_rows
from tests.lab.report.browser import opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A softmax and a scaled run, trained for a moment, with their maps, and the page."""
    place = tmp_path_factory.mktemp("runs")
    for attention in ("softmax", "scaled"):
        recipe = find_recipe(f"pairs-{attention}")
        images = replace(recipe.pairs, train_images=256, test_images=64)
        experiment = replace(recipe, pairs=images, epochs=1, batch=64)
        run(experiment, place / attention, RunSettings(tensorboard=False), quiet=True)
        record_run(place / attention, images=16, quiet=True)
    write_report([place], place / "report.html")
    return place


@pytest.fixture
def page(folder: Path, browser: Browser) -> Iterator[Page]:
    """The page, opened anew."""
    with opened(browser, folder / "report.html") as page:
        yield page


def _strongest(page: Page) -> list[tuple[str, int]]:
    """Of each picture: its query, and the key that has most of its attention."""
    return page.eval_on_selector_all(
        ".panel canvas", "all => all.map(c => [c.dataset.query, Number(c.dataset.strongest)])"
    )


def _drawn(page: Page) -> list[str]:
    return page.eval_on_selector_all(".panel canvas", "all => all.map(c => c.toDataURL())")


def test_softmax_and_scaled_stand_side_by_side(page: Page) -> None:
    """One picture of each, softmax left; six images to choose from."""
    assert page.locator(".panel h4 span").all_inner_texts() == ["softmax", "scaled"]
    assert page.locator(".images button").count() == 6


def test_pointing_changes_both_pictures(page: Page) -> None:
    """The query follows the pointer, and so does what is drawn."""
    before = _drawn(page)
    canvas = page.locator(".panel canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.04 * box["width"], box["y"] + 0.96 * box["height"])
    after = _drawn(page)
    assert [query for query, _ in _strongest(page)] == ["7,0", "7,0"]
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_arrow_keys_move_the_query(page: Page) -> None:
    """From the keyboard the query goes pixel by pixel, stops at the border, and is read out."""
    canvas = page.locator(".panel canvas").first
    canvas.focus()
    for _ in range(24):
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowLeft")
    assert _strongest(page)[0][0] == "0,0"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert _strongest(page)[0][0] == "1,2"
    assert "query row 2, column 3 attends most to" in page.locator(".says").inner_text()


def test_rows_in_the_browser_are_those_of_the_record(folder: Path, page: Page) -> None:
    """For queries, heads and images, the strongest key is the one that numpy finds."""
    page.locator(".panel canvas").first.focus()
    for image, head, moves in ((0, 0, 0), (2, 1, 3), (5, 3, 5)):
        page.locator(".images button").nth(image).click()
        page.select_option("#explorer-head", index=head)
        page.locator(".panel canvas").first.focus()
        for _ in range(moves):
            page.keyboard.press("ArrowRight")
        for name, (query, strongest) in zip(("softmax", "scaled"), _strongest(page), strict=True):
            record = read_attention(folder / name / "attention")
            assert record is not None
            vectors = record.explorer.images[image].blocks[0]
            row, column = map(int, query.split(","))
            weights = decode_rows(vectors, head, [row * 20 + column], softmax=name == "softmax")[0]
            assert abs(weights[strongest]) >= np.abs(weights).max() * (1 - 1e-5)


def test_scores_on_the_page_are_those_of_the_record(folder: Path, page: Page) -> None:
    """The table shows what report.json has: trained, untrained and the errors of ablations."""
    numbers = json.loads((folder / "report.json").read_text())
    assert [item["run"] for item in numbers["attention"]] == ["scaled", "softmax"]
    cells = page.eval_on_selector_all(
        ".scores [data-key]",
        "all => all.map(c => [c.dataset.key, [c.innerText, c.closest('td').innerText]])",
    )
    shown = dict(cells)
    for item in numbers["attention"]:
        record = item["record"]
        for name, summary in record["blocks"][0]["scores"].items():
            number, cell = shown.pop(f"scores/{item['run']}/1/{name}")
            assert number == score_number(summary["mean"])
            untrained = record["blocks"][0]["untrained"][name]["mean"]
            assert cell.endswith(f"untrained {score_number(untrained)}")
        for name, error in record["ablations"]["error_pct"].items():
            assert shown.pop(f"ablations/{item['run']}/{name}")[0] == f"{error:.2f}"
    assert not shown
    heads = page.locator(".scores thead th small").all_inner_texts()
    assert heads == ["softmax, seed 0", "scaled, seed 0"]


def test_many_scores_fit_the_window(folder: Path, browser: Browser, tmp_path: Path) -> None:
    """At 1440 pixels no table of scores of 8 runs with 3 blocks is cut."""
    for seed in range(4):
        for name in ("softmax", "scaled"):
            target = tmp_path / f"cifar10-preresnet20-{name}-short-seed{seed}"
            shutil.copytree(folder / name, target)
            file = target / "attention" / "attention.json"
            record = json.loads(file.read_text())
            record |= {"seed": seed, "blocks": record["blocks"] * 3, "maps": []}
            record["explorer"]["images"] = []
            file.write_text(json.dumps(record))
    report = write_report([tmp_path], tmp_path / "report.html")
    with opened(browser, report, viewport={"width": 1440, "height": 900}) as page:
        tables = page.locator(".wide:has(.scores)")
        assert tables.count() == 2
        for box in tables.element_handles():
            assert box.evaluate("box => box.scrollWidth - box.clientWidth") <= 0
        assert page.locator(".scores .part").count() == 8


def test_a_damaged_record_is_told(folder: Path, browser: Browser, tmp_path: Path) -> None:
    """The page stands without the maps of a damaged record, and says which it is."""
    file = folder / "scaled" / "attention" / "attention.json"
    text = file.read_text()
    try:
        file.write_text(text[: len(text) // 2])
        broken = write_report([folder], tmp_path / "report.html")
    finally:
        file.write_text(text)
    with opened(browser, broken) as page:
        assert "attention.json is damaged" in page.locator("#attention").inner_text()
        assert page.locator(".panel").count() == 1
