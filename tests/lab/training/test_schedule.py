"""The learning rate of every step."""

from itertools import pairwise

import pytest

from scalednl.lab.config import Experiment
from scalednl.lab.training.schedule import learning_rate


def test_steps_divide_by_ten_at_the_milestones() -> None:
    """The rate drops when the epoch, counted from 0, reaches 81 and 122."""
    paper = Experiment()
    rates = {epoch: learning_rate(paper, epoch, 0, 391) for epoch in (0, 80, 81, 121, 122, 163)}
    right = {0: 0.1, 80: 0.1, 81: 0.01, 121: 0.01, 122: 0.001, 163: 0.001}
    assert rates == pytest.approx(right)
    assert learning_rate(paper, 81, 390, 391) == pytest.approx(0.01)


def test_one_cycle_rises_then_falls() -> None:
    """It begins at 1/25, reaches its largest rate at 30 % and ends near 0, without a jump."""
    cycle = Experiment(schedule="one-cycle", lr=0.4, epochs=10, milestones=())
    rates = [learning_rate(cycle, epoch, step, 10) for epoch in range(10) for step in range(10)]
    assert rates[0] == pytest.approx(0.4 / 25)
    assert 0 < rates[-1] < 0.4 * 1e-3
    top = rates.index(max(rates))
    assert top == 30
    assert max(rates) == pytest.approx(0.4, rel=2e-3)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert max(abs(a - b) for a, b in pairwise(rates)) < 0.4 * 0.06
