"""What is printed, what is released and what is ours stays apart, in data and in words."""

import re
from pathlib import Path

import pytest

from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.printed_contrasts import PrintedContrast, printed_contrasts
from scalednl.lab.paper.provenance import NOTHING, provenance
from scalednl.lab.paper.tables import BLOCKS, mean_at, printed, printed_means
from scalednl.lab.recipes import CIFAR
from scripts.paper_tables import paper_parts
from scripts.parts import with_parts
from scripts.results import PAGES

ROOT = Path(__file__).parents[3]
TEXTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "src").rglob("*.py")),
    *sorted((ROOT / "src").rglob("*.j2")),
    *sorted((ROOT / "src").rglob("*.json")),
]
FALSE_CLAIM = re.compile(
    r"as (?:in )?the\s+paper(?:\s+has|'s\s+networks|\)|,)|paper's\s+(?:colours|`hot`|own\s+runs"
    r"|position|batch norm|gamma|output convolution|residual sum)",
    re.I,
)


def test_the_page_says_what_is_not_printed() -> None:
    """docs/paper.md has nothing from the paper beside what the paper does not print."""
    assert f"| position encoding | {NOTHING} |" in PAGES["paper"].read_text(encoding="utf-8")


def test_a_page_without_its_parts_is_refused() -> None:
    """A page that lost a marker is named with the missing part."""
    with pytest.raises(ValueError, match=r"the page has no part from <!-- provenance -->"):
        with_parts("# nothing here", paper_parts())


def test_every_choice_is_named_once() -> None:
    """No topic stands twice, and every choice says what was decided."""
    choices = provenance().choices
    topics = [choice.topic for choice in choices]
    assert len(set(topics)) == len(topics) >= 30
    assert all(choice.ours not in ("", NOTHING) for choice in choices)


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
    views = {c.column for c in first.cells if "neither is printed for this view" in c.inferred}
    assert views == {"magnitude", "direction"}
    tiny = {c.setting.data for c in second.cells if "by analogy with the CIFAR" in c.inferred}
    assert tiny == {"tiny-imagenet"}


def test_every_reason_applies_to_a_cell() -> None:
    """No entry of the list of inferred settings names cells that do not exist."""
    for item in provenance().inferred:
        for cells in item.cells:
            grid = artefacts()[cells.artefact].cells
            assert set(cells.columns) <= {cell.column for cell in grid}
            assert set(cells.data) <= {cell.setting.data for cell in grid}
            assert any(cell.inferred == item.reason for cell in grid)
    assert provenance().inferred_figures.keys() <= artefacts().keys()


def test_one_head_follows_from_the_printed_numbers() -> None:
    """Table 1's base and Table 2's best columns equal Table 3's 1-head column on both CIFARs."""
    for data in CIFAR:
        for attention, best in zip(BLOCKS, ("std=0.01", "he"), strict=True):
            one = mean_at("table3_heads", data, attention, "1 head")
            assert mean_at("table1_importance", data, attention, "base") == one
            assert mean_at("table2_initialization", data, attention, best) == one
            assert mean_at("table3_heads", data, attention, "4 heads") != one


def test_the_contradictions_are_those_of_the_numbers() -> None:
    """Every number in the list of contradictions follows from the printed tables and text."""
    found = {item.subject: item.details for item in provenance().contradictions}
    third, fourth = (
        {name: [mean_at(table, data, *place(name)).error for data in CIFAR] for name in BLOCKS}
        for table, place in (
            ("table3_heads", lambda name: (name, "4 heads")),
            ("table4_backbones", lambda name: ("4 heads", name)),
        )
    )
    assert third["scaled"] == fourth["scaled"]
    both = f"{_pair(third['softmax'])} in Table 3 and {_pair(fourth['softmax'])} in Table 4"
    assert both in found["Tables 3 and 4"]
    gaps = [[_gap(t["softmax"][k], t["scaled"][k]) for k in (0, 1)] for t in (third, fourth)]
    gains = [gain["points"] for gain in printed("text")["gains"]]
    assert gains not in gaps
    assert f"gains of {_pair(gains)} points. Table 4 has {_pair(gaps[1])}" in found[GAINS]
    assert f"Table 3 {_pair(gaps[0])} at {printed('text')['heads']} heads" in found[GAINS]
    for data, points in zip(CIFAR, gains, strict=True):
        (only,) = (c for c in printed_contrasts() if _is_gain(c, data, points))
        number = only.table.removeprefix("table")[0]
        assert f"is printed only as Table {number}, {only.name} ({only.model})" in found[GAINS]
    table = printed("table4_backbones")
    models = dict.fromkeys(at.model for at in printed_means("table4_backbones"))
    missing = [model for model in models if model not in table["caption_models"]]
    caption = f"It names {', '.join(table['caption_models'])}; the rows also have "
    assert found["Caption of Table 4"] == f"{caption}{' and '.join(missing)}."
    assert printed("text")["standard_deviations"] is None
    assert "no standard deviation" in found["Standard deviations"]
    assert f"with {printed('text')['heads']} heads" in found["Heads of Tables 1 and 2"]
    assert len(found) == 5


GAINS = "Gains in the text"


def _pair(values: list[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in values)


def _gap(softmax: float, scaled: float) -> float:
    return round(softmax - scaled, 2)


def _is_gain(contrast: PrintedContrast, data: str, points: float) -> bool:
    """Whether it is a difference of softmax and scaled blocks with this value."""
    compares = contrast.name.endswith("softmax − scaled") and len(contrast.terms) == 2
    return compares and contrast.data == data and round(contrast.difference, 2) == points
