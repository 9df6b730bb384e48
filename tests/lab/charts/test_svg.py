"""The shapes of charts, and their axes."""

import pytest

from scalednl.lab.charts.svg import COLOURS, DASHES, Axis, document, marker, spread_out, text
from tests.lab.charts.builders import assert_self_contained, parsed


def test_axes_place_values_and_pick_round_ticks() -> None:
    """Logarithmic and linear scales hit both ends; ticks lie within."""
    log = Axis(1, 1000, 0, 300, log=True)
    assert [log(v) for v in (1, 10, 1000)] == pytest.approx([0, 100, 300])
    assert log.ticks() == pytest.approx([1, 10, 100, 1000])
    linear = Axis(1, 2, 0, 100, log=False)
    assert linear(1.5) == 50
    assert linear.ticks() == pytest.approx([1, 1.2, 1.4, 1.6, 1.8, 2])


def test_labels_make_room_for_each_other() -> None:
    """Places too close move apart by as little as it takes; others stay."""
    assert spread_out([100, 10, 12], 10) == pytest.approx([100, 6, 16])


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (Axis(0.3, 30, 0, 1, log=True), [1, 10]),
        (Axis(1.5, 12, 0, 1, log=True), [2, 5, 10]),
        (Axis(-3, 9, 0, 1, log=False), [-2.5, 0, 2.5, 5, 7.5]),
        (Axis(0, 1000, 0, 1, log=False), [0, 200, 400, 600, 800, 1000]),
        (Axis(7, 7, 0, 1, log=False), [7]),
    ],
    ids=str,
)
def test_ticks_are_round_and_few(axis: Axis, ticks: list[float]) -> None:
    """1, 2, 2.5 or 5 times a power of ten; one value is its own tick."""
    assert axis.ticks() == pytest.approx(ticks)


def test_an_axis_of_one_value_places_it() -> None:
    """There is no division by the empty range."""
    assert Axis(7, 7, 20, 80, log=False)(7) == 20


def test_many_labels_keep_their_gap_and_their_mean() -> None:
    """Groups that meet become one group around the mean of its places."""
    places = [0.0, 1.0, 2.0, 50.0, 58.0, 59.0]
    moved = spread_out(places, 10)
    assert moved == pytest.approx([-9, 1, 11, 45 + 2 / 3, 55 + 2 / 3, 65 + 2 / 3])
    assert sum(moved) == pytest.approx(sum(places))


def test_colours_differ_without_colour() -> None:
    """Every colour but grey, which has circles as green does, has a marker of its own or a dash."""
    shapes = {(marker(0, 0, c).split('"')[1], DASHES[c]) for c in COLOURS}
    assert len(shapes) == len(COLOURS)


def test_words_stay_words() -> None:
    """Text, titles and what appears under the pointer are escaped."""
    odd = "<b>&\"'"
    chart = document(10, 10, odd, [text(1, 1, odd), marker(1, 1, "red", says=odd)])
    assert_self_contained(chart, odd)
    assert [one.text for one in parsed(chart).iter() if one.text and "<b>" in one.text] == [odd] * 2
