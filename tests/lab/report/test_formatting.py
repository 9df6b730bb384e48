"""How numbers and names are written."""

from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.paper.answers import ANSWERS
from scalednl.lab.report.aggregate import CellOutcome
from scalednl.lab.report.formatting import (
    anchor,
    data_words,
    difference,
    difference_long,
    interval,
    limited,
    minus,
    needed,
    network_words,
    plain,
    printed,
    score_number,
    score_title,
    score_words,
    spread,
    verdict_class,
)
from scalednl.lab.report.settling import Enough, More
from scalednl.lab.stats import Contrast, Summary
from tests.lab.report.judging import settled_verdict, write_contrast

ONE = Summary(21.166, None, 1, None, None)
THREE = Summary(-21.166, 1.041, 3, -23.75, -18.58)


def test_means_have_two_digits_and_a_deviation_where_there_is_one() -> None:
    """One run has none; negative numbers have a real minus sign where they are signed."""
    assert (spread(ONE), spread(THREE)) == ("21.17", "-21.17 ± 1.04")
    assert (minus(-0.5), minus(0.5, 3)) == ("−0.50", "+0.500")
    assert interval(THREE, "error") == "[−23.75, −18.58]"
    assert interval(THREE, "key_share") == "[−23.750, −18.580]"
    assert interval(ONE, "error") == ""


@pytest.mark.parametrize(
    ("value", "said"), [(None, ""), (5.7, "5.70"), (5.73, "5.73"), (75.425, "75.425")]
)
def test_printed_numbers_keep_their_digits(value: float | None, said: str) -> None:
    """Two at least, and no more than the paper prints."""
    assert printed(value) == said


def test_a_difference_short_and_long() -> None:
    """Without an interval there is none, and one seed is singular."""
    many = Contrast(-9.0, 1.0, 3, -11.5, -6.5, p=0.0041)
    assert difference(many) == "−9.00 [−11.50, −6.50] p 0.0041"
    assert difference_long(many) == (
        "−9.00 points over 3 common seeds, 95 % interval −11.50 to −6.50; t test, p = 0.0041."
    )
    one = Contrast(-9.0, None, 1, None, None, p=None)
    assert difference(one) == "−9.00"
    assert difference_long(one) == "−9.00 points over 1 common seed."


def test_a_cell_for_a_spreadsheet() -> None:
    """Mean, n, and what diverged; a training of which none has finished says so."""
    done = CellOutcome(2, THREE, None, 1, 0, None, ())
    assert plain(done) == "-21.17 ± 1.04 (n=2), 1 diverged"
    assert plain(CellOutcome(0, None, None, 0, 1, None, ())) == "none finished (n=0)"
    assert plain(None) == ""


def test_names_as_people_write_them() -> None:
    """The paper's networks, smaller ones, and names that are not known."""
    assert [network_words(n) for n in ("wrn28_10", "preresnet20", "mine")] == [
        *("WRN-28-10", "PreResNet-20", "mine")
    ]
    assert (data_words("cifar10"), data_words("mine")) == ("CIFAR-10", "mine")
    assert score_words("key_share") != "key_share"
    assert (score_words("my_score"), score_title("my_score")) == ("my score", "my score")
    assert (score_number(-0.12345), score_number(12.34)) == ("−0.123", "12.3")


def test_addresses_of_different_names_are_different() -> None:
    """Letters, digits and hyphens stay; everything else is written by its number."""
    names = ["a b", "a_b", "a_20_b", "a/b", "ä", "a-b"]
    assert anchor("a-b") == "a-b"
    assert len({anchor(name) for name in names}) == len(names)
    assert all(letter.isascii() for name in names for letter in anchor(name))


def test_long_texts_are_cut() -> None:
    """A thousand letters and a mark."""
    assert limited("x" * 1000) == "x" * 1000
    assert limited("x" * 1001) == "x" * 1000 + " …"


def test_every_answer_has_a_colour() -> None:
    """Unknown ones are open."""
    assert [verdict_class(answer) for answer in ANSWERS] == ["holds", "fails", "same", "open"]
    assert verdict_class("odd") == "open"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            More(Enough(1, 2.0, within_looks=True), Enough(8, 16.0, within_looks=False)),
            "Would settle it: 1 more seed (2 h 00 min of training here) if the mean stays; 8 more "
            "seeds (16 h 00 min of training here) to detect 1.33 points, more than were declared.",
        ),
        (
            More(None, Enough(None, None, within_looks=False), is_assumed=True),
            "Would settle it: more than 1,000 seeds to detect 1.33 points, with a scatter that is "
            "assumed.",
        ),
        (More(None, None), ""),
        (None, ""),
    ],
)
def test_what_would_settle_a_claim_in_words(tmp_path: Path, more: More | None, said: str) -> None:
    """Both numbers where there are both; nothing for a claim that is settled."""
    write_contrast(tmp_path, "scaled-beats-softmax", 0.3, 4, spread=3.0)
    found = replace(settled_verdict(tmp_path, "scaled-beats-softmax"), more=more, margin=1.33)
    assert needed(found) == said
    assert needed(replace(found, answer="holds")) == ""
