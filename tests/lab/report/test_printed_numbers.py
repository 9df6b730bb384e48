"""The section about the printed numbers: on the page, in report.md and in report.json."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser

from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.printed_contrasts import LARGER, printed_contrasts
from scalednl.lab.paper.printed_noise import placebos
from scalednl.lab.recipes import CIFAR
from scalednl.lab.report.formatting import minus
from scalednl.lab.report.printed_numbers import noise_caption, printed_numbers
from scalednl.lab.report.write import write_report
from tests.lab.report.browser import opened
from tests.lab.report.builders import cell_experiment, write_cell

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with runs of one cell of Table 1."""
    folder = tmp_path_factory.mktemp("printed")
    write_cell(folder, cell_experiment("table1_importance", "scaled", "direction"), [20.0, 21.0])
    return write_report([folder], folder / "report.html")


def test_the_chart_shows_every_cifar_difference_and_placebo() -> None:
    """Each difference is written beside its dot, with a bar of two noises to either side."""
    root = ElementTree.fromstring(printed_numbers().chart)
    written = [text.text for text in root.iter(f"{SVG}text")]
    drawn = [c for c in printed_contrasts() if c.data in CIFAR]
    values = [minus(c.difference) for c in drawn]
    values += [minus(p.difference) for p in placebos() if p.data in CIFAR]
    assert sorted(t for t in written if t and re.fullmatch(r"[+−]\d\.\d\d", t)) == sorted(values)
    bars = [line for line in root.iter(f"{SVG}line") if "opacity:.55" in line.get("style", "")]
    assert len(bars) == len(values)
    blue = sum("--blue" in line.get("style", "") for line in bars)
    assert blue == sum(c.answer == LARGER for c in drawn)


def test_captions_have_the_noise_of_their_data() -> None:
    """CIFAR differences carry ± 0.14, Tiny-ImageNet's ± 0.54, tables without numbers nothing."""
    captions = {name: noise_caption(artefact) for name, artefact in artefacts().items()}
    assert "± 0.14 points (CIFAR):" in captions["table1_importance"]
    assert "± 0.14 points (CIFAR) or ± 0.54 points (Tiny" in captions["table4_backbones"]
    assert captions["figure1_attention_maps"] == captions["control_position"] == ""


def test_the_files_have_the_differences_and_the_marks(report: Path) -> None:
    """report.json has every difference with its answer; report.md marks and footnotes cells."""
    numbers = json.loads(report.with_suffix(".json").read_text())
    found = {
        (row["table"], row["name"], data): (cell["difference"], cell["answer"])
        for row in numbers["printed"]["contrasts"]
        for data, cell in row["cells"].items()
    }
    wanted = {(c.table, c.name, c.data): (c.difference, c.answer) for c in printed_contrasts()}
    assert found == wanted
    assert "chart" not in numbers["printed"]
    (table,) = (t for t in numbers["tables"] if t["name"] == "table1_importance")
    marks = table["notes"]
    cells = table["groups"][0]["rows"][0]["cells"]
    assert [cells[c]["mark"] for c in ("base", "magnitude", "direction")] == ["†", "‡", "‡"]
    markdown = report.with_suffix(".md").read_text()
    assert "| 5.73† |" in markdown
    assert f"\n‡ {marks['‡']}\n" in markdown
    assert "| **+0.34 ± 0.14** | **+0.76 ± 0.14** |" in markdown


def test_the_page_has_the_section_and_the_footnotes(report: Path, browser: Browser) -> None:
    """Numbers of the section are those of the file; a mark names its reason, figures too."""
    with opened(browser, report) as page:
        section = page.locator("#printed")
        assert "0.07 points" in section.inner_text()
        page.eval_on_selector_all("details", "all => all.forEach(d => d.open = true)")
        row = page.locator("#table-printed tr", has_text="direction only: softmax − scaled")
        assert "+0.34 ± 0.14" in row.inner_text()
        assert row.locator("td.larger").count() == 2
        assert page.locator("#table-provenance code", has_text="norm=False").count() == 1
        mark = page.locator("#table-table1_importance td.paper sup").first
        reason = mark.get_attribute("title") or ""
        assert reason in page.locator("#table1_importance .notes").inner_text()
        assert "4 heads" in page.locator("#figure1_attention_maps .notes").inner_text()


def test_the_section_fits_a_phone(report: Path, browser: Browser) -> None:
    """At 360 px, with everything unfolded, only boxes scroll, not the page."""
    with opened(browser, report, viewport={"width": 360, "height": 740}) as page:
        page.eval_on_selector_all("details", "all => all.forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
