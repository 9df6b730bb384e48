"""What is printed, what is released and what is ours stays apart, in data and in words."""

import re
from pathlib import Path

import pytest

from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.inferred import ONE_HEAD_TINY, VIEW
from scalednl.lab.paper.printed_noise import ATTENTIONS, CIFAR, heads_mean, init_mean, view_mean
from scalednl.lab.paper.provenance import CHOICES, NOTHING
from scripts.paper_tables import PAGE, with_tables

ROOT = Path(__file__).parents[3]
TEXTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "src").rglob("*.py")),
    *sorted((ROOT / "src").rglob("*.j2")),
]
FALSE_CLAIM = re.compile(
    r"as (?:in )?the\s+paper(?:\s+has|'s\s+networks|\)|,)|paper's\s+(?:colours|`hot`|own\s+runs"
    r"|position|batch norm|gamma|output convolution|residual sum)",
    re.I,
)


def test_the_page_has_the_generated_tables() -> None:
    """docs/paper.md holds what the data says; `python -m scripts.paper_tables` writes it."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page
    assert f"| position encoding | {NOTHING} |" in page


def test_a_page_without_its_parts_is_refused() -> None:
    """A page that lost a marker is named with the missing part."""
    with pytest.raises(ValueError, match=r"the page has no part from <!-- provenance -->"):
        with_tables("# nothing here")


def test_every_choice_is_named_once() -> None:
    """No topic stands twice, and every choice says what was decided."""
    topics = [choice.topic for choice in CHOICES]
    assert len(set(topics)) == len(topics) >= 30
    assert all(choice.ours not in ("", NOTHING) for choice in CHOICES)


def test_no_text_calls_the_release_printed() -> None:
    """Nothing that only the release has is called the paper's, in sources, docs or templates."""
    assert len(TEXTS) > 100
    found = {path.name: FALSE_CLAIM.findall(path.read_text(encoding="utf-8")) for path in TEXTS}
    assert {name: claims for name, claims in found.items() if claims} == {}


def test_the_pattern_finds_false_claims() -> None:
    """The search above fails on the sentences that it is for."""
    for text in (
        "starts at 0, as in the paper)",
        "where as the paper has it",
        "the paper's colours",
    ):
        assert FALSE_CLAIM.search(text)


def test_printed_cells_are_marked_where_the_setting_is_inferred() -> None:
    """Every cell of Tables 1, 2 and 4 is marked, of Table 3 those with blocks, controls never."""
    marked = {
        name: {bool(cell.inferred) for cell in artefact.cells}
        for name, artefact in artefacts().items()
    }
    for name in ("table1_importance", "table2_initialization", "table4_backbones"):
        assert marked[name] == {True}
    for cell in artefacts()["table3_heads"].cells:
        assert bool(cell.inferred) == (cell.setting.attention != "plain")
    for name, artefact in artefacts().items():
        assert bool(artefact.inferred) == name.startswith("figure")
        if artefact.is_control:
            assert marked[name] == {False}


def test_reasons_are_those_of_the_cells() -> None:
    """Table 1's views and Table 2's Tiny-ImageNet rows have reasons of their own."""
    first, second = artefacts()["table1_importance"], artefacts()["table2_initialization"]
    assert {c.column for c in first.cells if c.inferred == VIEW} == {"magnitude", "direction"}
    tiny = {c.setting.data for c in second.cells if c.inferred == ONE_HEAD_TINY}
    assert tiny == {"tiny-imagenet"}


def test_one_head_follows_from_the_printed_numbers() -> None:
    """Table 1's base and Table 2's best columns equal Table 3's 1-head column on both CIFARs."""
    for data in CIFAR:
        for attention, best in zip(ATTENTIONS, ("std=0.01", "he"), strict=True):
            one = heads_mean(data, attention, 1)
            assert view_mean(data, attention, "base") == one == init_mean(data, attention, best)
            assert heads_mean(data, attention, 4) != one
