"""The first screen of the page."""

import json
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from scalednl.lab.cli import parse
from scalednl.lab.paper.answers import OPEN
from scalednl.lab.recipes import find_recipe
from scalednl.lab.records.bench import SCHEMA, BlocksRecord, BlocksRow, BlocksSettings
from scalednl.lab.records.origin import Origin
from scalednl.lab.records.typed_json import write_record
from scalednl.lab.report.content import BENCHMARKS, build_content
from scalednl.lab.report.story import GENERATED, asked, tell, warning
from scalednl.lab.report.write import write_report
from tests.lab.report.browser import opened
from tests.lab.report.builders import cell_experiment, write_cell, write_run

ERRORS = {"plain": 74.7, "softmax": 12.5, "scaled": 4.25}
AXE = "SCALEDNL_AXE"
"""Environment variable with the path of axe.min.js, of the npm package axe-core"""


def _write_demo(folder: Path, milliseconds: tuple[float, float] = (80.0, 4.0)) -> None:
    for name, error in ERRORS.items():
        write_run(folder / name, find_recipe(f"pairs-{name}"), [error + 1, error])
    rows = (
        BlocksRow("softmax plain", milliseconds[0], 24_000_000, 1e-7),
        BlocksRow("scaled auto", milliseconds[1], 1_310_000, 1e-7),
    )
    record = BlocksRecord(
        schema=f"{SCHEMA}{BlocksRecord.KIND}.v1",
        origin=Origin(),
        quick=True,
        settings=BlocksSettings("One block on 2 x 64 x 48 x 48, best of 5", 5),
        rows=rows,
        waited=0.5,
    )
    write_record(folder / "cost.json", record)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of three trainings and the cost of their blocks."""
    folder = tmp_path_factory.mktemp("demo")
    _write_demo(folder)
    return write_report([folder], folder / "report.html")


def test_the_demonstration_is_a_comparison(tmp_path: Path) -> None:
    """Its question, and error, time and memory of no block, softmax and scaled in this order."""
    _write_demo(tmp_path)
    story = tell(build_content([tmp_path]))
    found = story.comparison
    assert story.question == "Can a network compare two distant places?"
    assert found is not None
    arms = {arm.name: arm for arm in found.arms}
    assert list(arms) == ["no block", "softmax", "scaled"]
    means = [arm.training.ours.last.mean for arm in found.arms if arm.training.ours.last]
    assert means == list(ERRORS.values())
    assert [arm.is_chance for arm in found.arms] == [True, False, False]
    assert arms["no block"].cost is None
    assert found.time_words(arms["scaled"]) == "20 times faster"
    assert found.memory_words(arms["scaled"]) == "18 times less"
    assert found.time_words(arms["softmax"]) == found.time_words(arms["no block"]) == ""
    assert "50%" in found.busy
    assert found.seeds == 1


def test_one_training_is_no_comparison(tmp_path: Path) -> None:
    """The page then has a neutral title, and no claims were asked."""
    write_run(tmp_path / "one", find_recipe("pairs-scaled"), [20.0])
    content = build_content([tmp_path])
    story = tell(content)
    assert story.comparison is None
    assert story.question == "Softmax-free non-local networks, measured"
    assert asked(content) == ""
    assert warning(content).startswith("The run here is of generated images: nothing here bears")


def test_claims_without_data_are_not_counted_as_judged(tmp_path: Path) -> None:
    """One seed judges nothing; two seeds of both arms judge some claims, and the others wait."""
    for row, errors in {"softmax": [30.0, 31.0], "scaled": [20.0, 21.5]}.items():
        experiment = cell_experiment("table1_importance", row, "base")
        write_cell(tmp_path / "few", experiment, errors[:1])
        write_cell(tmp_path / "all", experiment, errors)
    few, complete = (build_content([tmp_path / name]) for name in ("few", "all"))
    assert few.counts.waiting == len(few.verdicts) > 0
    assert sum(few.counts.verdicts.values()) == 0
    assert asked(few).startswith(f"None of {len(few.verdicts)} claims can be judged yet")
    judged = len(complete.verdicts) - complete.counts.waiting
    assert 0 < judged == sum(complete.counts.verdicts.values())
    assert asked(complete).startswith(f"{judged} of {len(complete.verdicts)} claims judged")
    assert tell(complete).question == "Do the paper's claims hold?"
    story = tell(complete)
    assert all(one.is_primary and not one.is_waiting for one in story.main)
    assert all(one.answer != OPEN and not one.is_primary for one in story.settled)
    assert len(story.main) + len(story.settled) <= judged


def test_softmax_is_shown_at_its_best(tmp_path: Path) -> None:
    """Its fused form, which blocks choose, where that was measured; the plain one otherwise."""
    _write_demo(tmp_path)
    record = json.loads((tmp_path / "cost.json").read_text())
    fused = {**record["rows"][0], "method": "softmax fused", "milliseconds": 40.0}
    record["rows"].append(fused)
    (tmp_path / "cost.json").write_text(json.dumps(record))
    found = tell(build_content([tmp_path])).comparison
    assert found is not None
    arms = {arm.name: arm for arm in found.arms}
    assert arms["softmax"].cost is not None
    assert arms["softmax"].cost.milliseconds == 40.0
    assert found.time_words(arms["scaled"]) == "10 times faster"


def test_generated_images_are_marked(tmp_path: Path, browser: Browser) -> None:
    """At the top and beside every verdict, on the page and in report.md; CIFAR is not."""
    for row, errors in {"softmax": [30.0, 31.0], "scaled": [20.0, 21.5]}.items():
        write_cell(tmp_path, cell_experiment("table1_importance", row, "base"), errors)
    page_path = write_report([tmp_path], tmp_path / "report.html")
    with opened(browser, page_path) as page:
        assert "nothing here bears on the paper's data" in page.locator(".hero").inner_text()
        verdicts = page.locator("#table-claims > tbody > tr:not(.group)")
        assert verdicts.count() == page.locator("#table-claims .badge").count() > 0
    text = page_path.with_suffix(".md").read_text()
    assert "**Generated images only.** All 4 runs here" in text
    assert f"({GENERATED})" in text
    real = find_recipe("cifar10-preresnet20-scaled")
    write_run(tmp_path / "real", real, [20.0])
    assert warning(build_content([tmp_path])) == ""


def test_the_first_screen_has_the_answers(demo: Path, browser: Browser) -> None:
    """Nine numbers stand within 800 pixels; tables that were not run are folded into one line."""
    with opened(browser, demo, viewport={"width": 1280, "height": 800}) as page:
        assert page.title() == "scalednl report: Can a network compare two distant places?"
        table = page.locator("#table-answers")
        numbers = table.locator("td b").all_inner_texts()
        assert numbers == ["74.70", "–", "–", "12.50", "80", "24", "4.25", "4", "1.31"]
        box = table.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 800
        folded = page.locator("#not-run").bounding_box()
        assert folded is not None
        assert folded["height"] < 160
        cost = page.locator("#cost").bounding_box()
        assert cost is not None
        assert cost["y"] < 2400


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_has_nothing_to_scroll_sideways(demo: Path, browser: Browser, width: int) -> None:
    """No table or chart is wider than its box, and errors stand in the window."""
    with opened(browser, demo, viewport={"width": width, "height": 800}) as page:
        page.eval_on_selector_all("details", "all => all.forEach(d => { d.open = true })")
        wider = page.eval_on_selector_all(
            ".wide, .for-narrow",
            "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)",
        )
        assert wider == []
        assert page.locator(".for-narrow svg:visible").count() >= 2
        error = page.locator("#table-trainings .number").first.bounding_box()
        assert error is not None
        assert error["x"] + error["width"] <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(demo: Path, browser: Browser, scheme: str) -> None:
    """No rule of axe-core is violated, with everything unfolded."""
    script = os.environ.get(AXE)
    if not script:
        pytest.skip(f"{AXE} is not set: npm install axe-core, then the path of its axe.min.js")
    with opened(browser, demo, color_scheme=scheme) as page:
        page.eval_on_selector_all("details", "all => all.forEach(d => { d.open = true })")
        page.evaluate(Path(script).read_text())
        found = page.evaluate("axe.run()")
        assert [item["id"] for item in found["violations"]] == []
        assert len(found["passes"]) > 20


def test_commands_on_the_page_exist(demo: Path) -> None:
    """Every complete command that the page cites parses; every benchmark names one."""
    page = demo.read_text()
    cited = set(re.findall(r"<code>scalednl ([^<]*)</code>", page))
    cited |= {command.removeprefix("scalednl ") for _, command in BENCHMARKS.values()}
    assert any(words.startswith("reproduce table1_importance") for words in cited)
    for words in sorted(cited):
        arguments = words.split()
        if not any(word.isupper() for word in arguments):
            assert callable(parse(arguments)), words


@pytest.mark.parametrize("milliseconds", [(1e-320, 1e15), (1e15, 1e-320)])
def test_times_that_cannot_be_compared_are_not(
    tmp_path: Path, milliseconds: tuple[float, float]
) -> None:
    """A damaged record of costs has a page without a ratio of them."""
    _write_demo(tmp_path, milliseconds)
    page = write_report([tmp_path], tmp_path / "report.html").read_text()
    assert "times faster" not in page
    assert "times slower" not in page
