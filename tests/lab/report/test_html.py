"""The page in a real browser: its numbers, its controls, and what it must not do."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from scalednl.lab.config import Experiment
from scalednl.lab.recipes import find_recipe
from scalednl.lab.report.formatting import spread
from scalednl.lab.report.write import write_report
from scalednl.lab.stats import Summary
from tests.lab.report.browser import opened
from tests.lab.report.builders import cell_experiment, write_cell, write_run

HOSTILE = "<script>document.title='taken'</script>\"'<img src=x onerror=alert(1)>|`"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of runs in every state, with bench records."""
    folder = tmp_path_factory.mktemp("runs")
    errors = {"softmax": [30.0, 31.0, 29.5], "scaled": [20.0, 22.0, 21.5]}
    for row, values in errors.items():
        for column in ("base", "magnitude", "direction"):
            write_cell(folder, cell_experiment("table1_importance", row, column), values)
        for column in ("C", "C/2", "C/4", "C/8"):
            write_cell(folder, cell_experiment("figure2_embedding_channels", row, column), values)
        write_run(folder / f"own-{row}", find_recipe(f"pairs-{row}"), [60.0, 5.0])
    write_run(folder / "odd", Experiment(recipe=HOSTILE, data="pairs", model=HOSTILE), [50.0])
    write_run(folder / "running", replace(find_recipe("pairs-plain"), seed=7), [70.0], "running")
    diverged = cell_experiment("control_no_scale", "scaled", "without")
    write_run(folder / "diverged", diverged, [90.0], "diverged")
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{")
    (folder / "old").mkdir()
    (folder / "old" / "config.json").write_text('{"schema": 0}')
    bench = Path(__file__).parents[3] / "benchmarks" / "results"
    return write_report([folder], folder / "report.html", [bench])


def _numbers(report: Path) -> dict[str, Any]:
    return json.loads(report.with_suffix(".json").read_text())


def test_numbers_on_the_page_are_those_of_the_record(report: Path, browser: Browser) -> None:
    """Every cell of every table shows what report.json has for it."""
    numbers = _numbers(report)
    with opened(browser, report) as page:
        shown = dict(
            page.eval_on_selector_all(
                ".grid .number", "cells => cells.map(c => [c.dataset.key, c.innerText])"
            )
        )
    expected = {}
    for table in numbers["tables"]:
        for group in table["groups"]:
            for row in group["rows"]:
                for column, cell in row["cells"].items():
                    if cell and cell["ours"]:
                        place = (table["name"], group["scale"], row["data"], row["network"])
                        last = cell["ours"]["last"]
                        key = "/".join((*place, row["row"], column))
                        expected[key] = spread(Summary(**last)) if last else "none finished"
    assert len(expected) >= 15
    assert shown == expected
    assert expected["table1_importance/smoke/pairs/preresnet8/scaled/base"] == "21.17 ± 1.04"


def test_a_number_opens_the_runs_behind_it(report: Path, browser: Browser) -> None:
    """A click, or the keyboard, shows recipe, seeds and commit; a link leads to the run."""
    with opened(browser, report) as page:
        key = "table1_importance/smoke/pairs/preresnet8/scaled/direction"
        number = page.locator(f'[data-key="{key}"]')
        number.click()
        how = page.locator(".how:popover-open")
        assert "seed0" in how.inner_text()
        assert "−9.00 points over 3 common seeds" in how.inner_text()
        page.keyboard.press("Escape")
        assert page.locator(".how:popover-open").count() == 0
        number.focus()
        page.keyboard.press("Enter")
        page.locator(".how:popover-open a").first.click()
        assert page.locator(".how:popover-open").count() == 0
        assert page.locator("tr:target").count() == 1
        assert "seed0" in page.locator("tr:target").inner_text()


def test_tables_are_copied_as_markdown_and_csv(report: Path, browser: Browser) -> None:
    """Both copies hold the rows of the table, with printed values and ours."""
    with opened(browser, report, permissions=["clipboard-read", "clipboard-write"]) as page:
        copied = {kind: _copy(page, kind) for kind in ("csv", "markdown")}
    rows = list(csv.reader(io.StringIO(copied["csv"])))
    assert rows[0][:6] == ["scale", "data", "network", "blocks", "base paper", "base ours"]
    assert rows[1][:5] == ["paper", "CIFAR-10", "PreResNet-56", "softmax", "5.73"]
    scaled = next(row for row in rows if row[0] == "smoke" and row[3] == "scaled")
    assert scaled[5] == "21.17 ± 1.04 (n=3)"
    lines = copied["markdown"].splitlines()
    assert lines[1].startswith("| --- | --- |")
    assert len(lines) == len(rows) + 1


def _copy(page: Page, kind: str) -> str:
    page.locator(f'[data-table="table1_importance"][data-copy-as="{kind}"]').click()
    page.locator("button", has_text="Copied").first.wait_for()
    return page.evaluate("navigator.clipboard.readText()")


def test_runs_are_filtered_and_sorted(report: Path, browser: Browser) -> None:
    """Words narrow the list; a head sorts it up, then down."""
    with opened(browser, report) as page:
        rows = page.locator("#table-runs tbody tr:visible")
        everything = rows.count()
        page.fill("#filter", "softmax direction")
        assert 0 < rows.count() < everything
        assert page.locator("#filter-count").inner_text() == f"{rows.count()} of {everything}"
        page.fill("#filter", "")
        head = page.locator("#table-runs th", has_text="last, %").locator("button")
        head.click()
        head.click()
        last = page.locator("#table-runs tbody tr td:nth-child(7)").all_inner_texts()
        numbers = [float(text) for text in last if text]
        assert numbers == sorted(numbers, reverse=True)


def test_damaged_and_running_runs_are_listed(report: Path, browser: Browser) -> None:
    """What is wrong stands beside the run; nothing of it is in a mean."""
    with opened(browser, report) as page:
        text = {
            name: page.locator(f"#run-{name}").inner_text()
            for name in ("broken", "old", "running", "diverged")
        }
    assert "config.json is damaged" in text["broken"]
    assert "has schema 0" in text["old"]
    assert "interrupted" in text["running"]
    assert "diverged" in text["diverged"]
    assert _numbers(report)["counts"]["states"]["damaged"] == 2


def test_text_from_configs_stays_text(report: Path, browser: Browser) -> None:
    """A network named like a script is shown as that name, on the page and in Markdown."""
    with opened(browser, report) as page:
        assert page.title().startswith("scalednl report")
        assert page.locator("img[src='x']").count() == 0
        assert "<script>document" in page.locator("#table-runs").inner_text()
    assert not re.search(r"(?<!\\)<script>", report.with_suffix(".md").read_text())


@pytest.mark.parametrize("width", [320, 360, 768])
@pytest.mark.parametrize(
    "font",
    [
        "",
        "* { font-family: monospace !important }",
        "* { letter-spacing: 0.2em !important; word-spacing: 0.3em !important }",
        "html { font-size: 150% }",
    ],
    ids=["as-is", "monospace", "wide", "large"],
)
def test_narrow_screens_scroll_tables_not_the_page(
    report: Path, browser: Browser, width: int, font: str
) -> None:
    """At a phone's width nothing sticks out of the page, however wide the reader's font is."""
    with opened(browser, report, viewport={"width": width, "height": 740}) as page:
        page.evaluate(
            """font => {
                const style = document.createElement("style");
                style.textContent = font;
                document.head.append(style);
                document.querySelectorAll("details").forEach(part => { part.open = true; });
            }""",
            font,
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_reader(report: Path, browser: Browser, scheme: str) -> None:
    """Ink is darker than paper in the light scheme, and lighter in the dark one."""
    with opened(browser, report, color_scheme=scheme) as page:
        ink, paper = page.evaluate(
            "(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))"
        )
        assert (_brightness(ink) > _brightness(paper)) == (scheme == "dark")


def _brightness(colour: str) -> float:
    return sum(float(part) for part in colour.removeprefix("rgb(").rstrip(")").split(","))


def test_without_javascript_it_is_all_there(report: Path, browser: Browser) -> None:
    """Tables, charts, claims and provenance are in the file itself; dead controls are hidden."""
    with opened(browser, report, java_script_enabled=False) as page:
        assert page.locator("#table-table1_importance tbody tr").count() == 6
        assert page.locator("svg.scalednl-chart").count() >= 4
        claims = page.locator("#table-claims").inner_text()
        assert "open" in claims
        assert "Would settle it:" in claims
        assert page.locator("[data-copy-as]:visible").count() == 0
        page.locator(".grid .number").first.click()
        assert page.locator(".how:popover-open").count() == 1


def test_charts_carry_the_numbers(report: Path, browser: Browser) -> None:
    """Figure 2 and the curves of the trainings are drawn, with a title that can be read out."""
    with opened(browser, report) as page:
        figure = page.locator("#figure2_embedding_channels svg").first
        assert "pairs" in (figure.get_attribute("aria-label") or "")
        assert figure.locator("polyline").count() >= 2
        titles = figure.locator("title").all_text_contents()
        assert "scaled: 21.17" in titles


def test_500_runs_stay_small(tmp_path: Path) -> None:
    """The page of 500 runs is below 5 MB, and its list has every one of them."""
    experiment = cell_experiment("table1_importance", "scaled", "base")
    write_cell(tmp_path, experiment, [20.0 + seed / 100 for seed in range(500)])
    page = write_report([tmp_path], tmp_path / "report.html")
    assert page.stat().st_size < 5e6
    assert _numbers(page)["counts"]["runs"] == 500
    assert page.read_text().count('id="run-') == 500
