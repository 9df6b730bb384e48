"""What was fixed before any run."""

import pytest

from scalednl.lab.paper.rules import FIXED_LEVEL, LOOK_LEVELS, RULES
from scalednl.lab.paper.scales import SCALES


@pytest.mark.parametrize(("n", "used"), [(3, 0), (4, 4), (5, 4), (8, 6), (11, 9), (50, 12)])
def test_seeds_are_judged_at_the_last_look_reached(n: int, used: int) -> None:
    """Seeds beyond a look wait for the next."""
    assert RULES["lite"].seeds_used(n, "cifar10") == used


def test_more_rows_need_a_smaller_p() -> None:
    """Four and more rows share the last level; with a fixed number of seeds it is 5 %."""
    lite = RULES["lite"]
    assert [lite.level(rows) for rows in (1, 2, 3, 4, 9)] == [*LOOK_LEVELS, LOOK_LEVELS[-1]]
    assert list(LOOK_LEVELS) == sorted(LOOK_LEVELS, reverse=True)
    assert RULES["paper"].level(4) == FIXED_LEVEL


def test_tiny_imagenet_has_looks_of_its_own() -> None:
    """Three seeds there, ten on CIFAR: the paper's numbers."""
    paper = RULES["paper"]
    assert paper.looks_at("tiny-imagenet") == (SCALES["paper"].tiny_seeds,) == (3,)
    assert paper.looks_at("cifar10") == (SCALES["paper"].seeds,) == (10,)


@pytest.mark.parametrize("name", RULES)
def test_every_data_set_of_a_scale_has_a_margin(name: str) -> None:
    """A scale's recipes name the data sets, and each has a margin and a deviation."""
    rule, scale = RULES[name], SCALES[name]
    data = {"pairs"} if name == "smoke" else set(scale.recipes)
    assert rule.margins.keys() == rule.run_sd.keys() == data
    assert scale.seeds in rule.looks
