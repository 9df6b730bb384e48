"""The ways to compute a block that benchmarks compare."""

from scalednl.lab.charts.svg import COLOURS
from scalednl.lab.records.methods import MAIN_METHODS, METHODS, with_heads


def test_methods_are_different_and_can_be_drawn() -> None:
    """No two have the same options or label, and the main ones have different colours."""
    options = {(m.attention, m.order, m.memory, m.rows) for m in METHODS.values()}
    assert len(options) == len({m.label for m in METHODS.values()}) == len(METHODS)
    assert {m.colour for m in METHODS.values()} <= set(COLOURS)
    assert len({METHODS[name].colour for name in MAIN_METHODS}) == len(MAIN_METHODS)


def test_labels_name_the_attention_once() -> None:
    """Softmax is in the names of its methods already."""
    assert METHODS["softmax fused"].label == "softmax fused"
    assert METHODS["auto"].label == "scaled auto"


def test_heads_in_words() -> None:
    """One is singular, none is a network without blocks."""
    assert [with_heads("auto", heads) for heads in (0, 1, 4)] == [
        *("auto", "auto, 1 head", "auto, 4 heads"),
    ]
