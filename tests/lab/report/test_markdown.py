"""report.md."""

from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.recipes import find_recipe
from scalednl.lab.report.content import build_content
from scalednl.lab.report.markdown import markdown_table, render_markdown
from scalednl.lab.report.printed_numbers import printed_numbers
from scalednl.lab.report.write import write_report
from tests.lab.report.builders import cell_experiment, write_cell, write_run


def test_markdown_keeps_its_columns(tmp_path: Path) -> None:
    """Bars, line ends and tags in names stay within their cell of report.md."""
    odd = replace(find_recipe("pairs-scaled"), data="a|b\n<i>", model="[x](y)")
    write_run(tmp_path / "run", odd, [20.0])
    text = write_report([tmp_path], tmp_path / "report.html").with_suffix(".md").read_text()
    row = next(line for line in text.splitlines() if "<i>" in line)
    assert row.startswith("| a\\|b \\<i> | [x]\\(y) |")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a | b", r"a \| b"),
        (r"a\|b", r"a\\\|b"),
        ("two\n lines\t", "two lines"),
        ("<b> & <i>", r"\<b> & \<i>"),
        ("p < 0.05 &amp; <!-- x", r"p < 0.05 \&amp; \<!-- x"),
        ("[x](http://y)", r"[x]\(http://y)"),
        ("`code`", r"\`code\`"),
    ],
)
def test_a_cell_stays_text(text: str, written: str) -> None:
    """No column, tag, link or code of its own."""
    assert markdown_table(["head"], [[text]]).splitlines()[-1] == f"| {written} |"


def test_tables_have_the_numbers(tmp_path: Path) -> None:
    """Trainings, a table of the paper with printed and own numbers, and what was left out."""
    write_cell(tmp_path, cell_experiment("table1_importance", "scaled", "base"), [20.0, 21.0, 22.5])
    write_run(tmp_path / "own", replace(find_recipe("pairs-softmax"), epochs=1), [60.0])
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.json").write_text("{")
    text = render_markdown(build_content([tmp_path]))
    assert "5 runs (1 damaged, 4 finished), 48 s of training." in text
    own = next(line for line in text.splitlines() if "softmax, 1 block, 4 heads" in line)
    assert own.split(" | ")[3:5] == ["1 epoch of 5,000 images", "60.00 (n=1)"]
    assert own.endswith("| 12 s |")
    row = next(line for line in text.splitlines() if line.startswith("| smoke |"))
    assert row.split(" | ")[3:7] == ["scaled", "", "21.17 ± 1.26 (n=3)", ""]
    paper = next(line for line in text.splitlines() if line.startswith("| paper | CIFAR-10 |"))
    assert "| 5.73" in paper
    assert "A part of the table at the scale smoke: 1 of 6 trainings have a result." in text
    assert "| bad | config.json is damaged" in text.partition("## Runs left out")[2]


def test_without_runs_the_papers_own_numbers_remain(tmp_path: Path) -> None:
    """No table of ours, but what the printed numbers can carry."""
    text = render_markdown(build_content([tmp_path]))
    assert "0 runs (), 0 s of training." in text
    assert "## What the printed numbers can carry" in text
    assert "## Runs left out" not in text
    for item in printed_numbers().contradictions:
        assert f"- {item.subject}: " in text
