"""Records of attention on the page; the explorer in a real browser, on a really trained block."""

import base64
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from scalednl.lab.attention.record import record_run
from scalednl.lab.config import RunSettings
from scalednl.lab.recipes import find_recipe
from scalednl.lab.records.attention import PNG, AttentionRecord, read_attention
from scalednl.lab.report import attention
from scalednl.lab.report.attention import RunAttention, explorer, map_pictures, score_tables
from scalednl.lab.report.formatting import score_number
from scalednl.lab.report.write import write_report
from scalednl.lab.training.run import run
from tests.lab.attention.builders import decode_rows
from tests.lab.records.builders import BLOCK, IMAGE, RECORD
from tests.lab.report.browser import opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A softmax and a scaled run, trained for a moment, with their maps, and the page."""
    place = tmp_path_factory.mktemp("runs")
    for kind in ("softmax", "scaled"):
        recipe = find_recipe(f"pairs-{kind}")
        images = replace(recipe.pairs, train_images=256, test_images=64)
        experiment = replace(recipe, pairs=images, epochs=1, batch=64)
        run(experiment, place / kind, RunSettings(tensorboard=False), quiet=True)
        record_run(place / kind, images=16, quiet=True)
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
    assert page.locator(".panel .name span").all_inner_texts() == ["softmax", "scaled"]
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
    page.eval_on_selector_all("#attention details", "all => all.forEach(d => { d.open = true })")
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


def _made(
    run: str, kind: str, seed: int = 0, data: str = "pairs", png: bytes = PNG
) -> RunAttention:
    image = {**IMAGE, "png": base64.b64encode(png).decode()}
    values = {
        **RECORD,
        "seed": seed,
        "data": data,
        "blocks": [{**BLOCK, "attention": kind}],
        "explorer": {"images": [image], "left_out": 0},
    }
    return RunAttention(run, Path("nowhere"), msgspec.convert(values, AttentionRecord))


def test_tables_have_four_runs_softmax_beside_scaled() -> None:
    """Seeds in order, softmax first within a seed; other data sets have tables of their own."""
    runs = [
        _made(f"{kind}{seed}", kind, seed) for kind in ("scaled", "softmax") for seed in (1, 0, 2)
    ]
    tables = score_tables([*runs, _made("c", "scaled", data="cifar10")])
    assert [[run.run for run in table.runs] for table in tables] == [
        ["softmax0", "scaled0", "softmax1", "scaled1"],
        ["softmax2", "scaled2"],
        ["c"],
    ]
    assert tables[0].scores == [["key_share"]]
    assert tables[0].ablations == ["unchanged"]


def test_the_explorer_compares_the_same_pictures() -> None:
    """The group with most kinds of attention is shown, softmax left; others are counted."""
    other = PNG + b"other"
    runs = [
        *(_made(f"a{n}", "scaled", png=other) for n in range(3)),
        *(_made("b", "scaled"), _made("c", "softmax"), _made("d", "scaled")),
    ]
    found = explorer(runs)
    assert [run.name for run in found.runs] == ["b", "c", "d"]
    assert found.panels == ((1,), (0, 2))
    assert found.left_out == 3
    assert [image.png for image in found.images] == [PNG]
    assert all(image.png == b"" for run in found.runs for image in run.images)


def test_one_run_of_each_kind_fits_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is room for two, these are of both kinds."""
    runs = [_made("a", "scaled"), _made("b", "scaled"), _made("c", "softmax")]
    vectors = runs[0].record.explorer.images[0].blocks[0]
    size = len(vectors.theta) + len(vectors.phi)
    monkeypatch.setattr(attention, "EXPLORER_BYTES", 2 * size)
    assert [run.name for run in explorer(runs).runs] == ["a", "c"]
    assert explorer(runs).left_out == 1
    monkeypatch.setattr(attention, "EXPLORER_BYTES", size - 1)
    assert explorer(runs) == attention.Explorer(left_out=3)


def test_pictures_are_files_of_the_run_itself(tmp_path: Path) -> None:
    """No link, no other kind of file, none that is too large; one per kind of attention."""
    run = replace(_made("a", "scaled"), folder=tmp_path)
    assert map_pictures([run]) == []
    (tmp_path / "map.png").write_bytes(b"text")
    assert map_pictures([run]) == []
    (tmp_path / "map.png").write_bytes(PNG + b"1")
    url, words = map_pictures([run, replace(run, run="b")])[0]
    assert base64.b64decode(url.removeprefix("data:image/png;base64,")) == PNG + b"1"
    assert words == "a, scaled, hot colours"
    assert len(map_pictures([run, replace(run, run="b")])) == 1
    (tmp_path / "map.png").rename(tmp_path / "other.png")
    (tmp_path / "map.png").symlink_to("other.png")
    assert map_pictures([run]) == []
    (tmp_path / "map.png").unlink()
    (tmp_path / "map.png").write_bytes(PNG + bytes(attention.LARGEST_PICTURE))
    assert map_pictures([run]) == []
