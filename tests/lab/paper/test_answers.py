"""The rule that turns an estimate into an answer."""

import pytest

from scalednl.lab.paper.answers import (
    Kind,
    Needed,
    answer,
    answer_always,
    answer_often,
    at_a_look,
    settled_by_power,
    settled_if_mean_stays,
    settled_if_none_diverges,
)
from scalednl.lab.stats import Estimate

LEVEL, MARGIN = 0.05, 1.0
HOLDS, FAILS, SAME, OPEN = "holds", "does not hold", "no difference that matters", "open"


@pytest.mark.parametrize(
    ("kind", "mean", "error", "expected"),
    [
        ("better", 2.0, 0.1, HOLDS),
        ("better", 0.5, 0.1, HOLDS),
        ("better", -0.5, 0.1, FAILS),
        ("better", 0.05, 0.1, SAME),
        ("better", 0.5, 1.0, OPEN),
        ("robust", -2.0, 0.1, FAILS),
        ("comparable", 0.5, 0.1, HOLDS),
        ("comparable", 2.0, 0.1, FAILS),
        ("comparable", -2.0, 0.1, FAILS),
        ("comparable", 1.0, 0.1, OPEN),
        ("severe", 2.0, 0.1, HOLDS),
        ("severe", 0.5, 0.1, FAILS),
        ("severe", -2.0, 0.1, FAILS),
        ("severe", 1.1, 0.1, OPEN),
    ],
)
def test_every_row_of_the_table(kind: Kind, mean: float, error: float, expected: str) -> None:
    """Nine degrees of freedom, a margin of 1 and p < 0.05."""
    found = answer(kind, Estimate(mean, error, 9), MARGIN, LEVEL)
    assert found.answer == expected
    assert (found.p < LEVEL) == (expected != OPEN)


@pytest.mark.parametrize("kind", ["better", "comparable", "severe"])
def test_the_answer_follows_the_interval(kind: Kind) -> None:
    """At every mean, an interval on one side of what is asked is an answer, and no other is."""
    for tenth in range(-30, 31):
        found = Estimate(tenth / 10, 0.31, 5)
        low, high = found.interval(1 - LEVEL)
        inside = found.interval(1 - 2 * LEVEL)
        within = inside[0] > -MARGIN and inside[1] < MARGIN
        beyond = low > MARGIN or high < -MARGIN
        expected = {
            "better": HOLDS if low > 0 else FAILS if high < 0 else SAME if within else OPEN,
            "comparable": HOLDS if within else FAILS if beyond else OPEN,
            "severe": HOLDS if low > MARGIN else FAILS if high < MARGIN else OPEN,
        }[kind]
        assert answer(kind, found, MARGIN, LEVEL).answer == expected, tenth


def test_always_needs_every_row() -> None:
    """The weakest row decides; one below 0 refutes it, at a level shared by the rows."""
    clear, weak, below = Estimate(2, 0.1, 9), Estimate(0.2, 0.2, 9), Estimate(-0.5, 0.2, 9)
    assert answer_always([clear, clear], LEVEL).answer == HOLDS
    assert answer_always([clear, weak], LEVEL).answer == OPEN
    assert answer_always([below], LEVEL).answer == FAILS
    assert answer_always([clear, below], LEVEL).answer == OPEN
    refuted = answer_always([clear, Estimate(-1, 0.2, 9)], LEVEL)
    assert refuted.answer == FAILS
    assert refuted.p == pytest.approx(2 * Estimate(-1, 0.2, 9).p())


@pytest.mark.parametrize(
    ("k", "n", "expected"), [(8, 8, HOLDS), (0, 8, FAILS), (1, 8, OPEN), (0, 7, OPEN), (5, 8, OPEN)]
)
def test_often_is_more_than_one_in_three(k: int, n: int, expected: str) -> None:
    """Eight runs without one that diverges refute it; seven do not."""
    assert answer_often(k, n).answer == expected


def test_what_would_settle_it_depends_on_the_distance_to_what_is_asked() -> None:
    """A mean at the border is never settled; the further from every border, the fewer seeds."""
    assert settled_if_mean_stays("comparable", 1.0, 0.5, MARGIN, LEVEL) is None
    assert settled_if_mean_stays("severe", 1.0, 0.5, MARGIN, LEVEL) is None
    assert settled_if_mean_stays("better", 1.0, 0.5, MARGIN, LEVEL) == settled_if_mean_stays(
        "severe", 2.0, 0.5, MARGIN, LEVEL
    )
    absent, between, clear = (
        settled_if_mean_stays("better", mean, 0.5, MARGIN, LEVEL) for mean in (0.2, 0.5, 1.0)
    )
    assert absent is not None
    assert between is not None
    assert clear is not None
    assert max(absent, clear) < between
    apart, inside = (settled_by_power(k, 0.5, MARGIN, LEVEL) for k in ("better", "comparable"))
    assert apart is not None
    assert inside is not None


@pytest.mark.parametrize("kind", ["better", "robust", "comparable", "severe"])
def test_seeds_if_the_mean_stays_are_the_first_with_an_answer(kind: Kind) -> None:
    """Tried one number of seeds after the other, for means inside the margin and beyond it."""
    sd = 0.8
    for mean in (-2.0, -0.6, 0.05, 0.3, 0.55, 0.8, 1.5, 3.0):
        first = next(
            n
            for n in range(2, 1000)
            if answer(kind, Estimate(mean, sd / n**0.5, n - 1), MARGIN, LEVEL).answer != OPEN
        )
        assert settled_if_mean_stays(kind, mean, sd, MARGIN, LEVEL) == first, mean


@pytest.mark.parametrize(("k", "n"), [(0, 0), (0, 9), (1, 8), (2, 8), (3, 20)])
def test_runs_that_refute_often_are_the_first_that_do(k: int, n: int) -> None:
    """With one run less it is open, unless that is a number of runs that is over already."""
    needed = settled_if_none_diverges(k, n)
    assert answer_often(k, needed).answer == FAILS
    assert needed == max(8, n + 1) or answer_often(k, needed - 1).answer == OPEN


@pytest.mark.parametrize(
    ("seeds", "n", "expected"),
    [
        (5, 4, Needed(6, within_looks=True)),
        (6, 6, Needed(9, within_looks=True)),
        (20, 4, Needed(20, within_looks=False)),
        (3, 12, Needed(13, within_looks=False)),
        (None, 4, Needed(None, within_looks=False)),
    ],
)
def test_the_next_look_that_has_enough(seeds: int | None, n: int, expected: Needed) -> None:
    """A look that is over does not count; beyond the last one the number itself is named."""
    found = at_a_look(seeds, (4, 6, 9, 12), n)
    assert found == expected
    assert found.more(n) == (None if seeds is None else (expected.seeds or 0) - n)
