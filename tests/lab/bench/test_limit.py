"""The machine's own rates."""

import pytest

from scalednl.lab.bench import limit
from scalednl.lab.bench.measure import Run


def test_rates_are_those_of_the_best_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """side^3 multiply-adds, and bytes read and written, over the shortest time of each."""
    rounds = [
        {"product": Run(0.5, 0), "copy": Run(0.1, 0)},
        {"product": Run(0.25, 0), "copy": Run(0.2, 0)},
    ]
    monkeypatch.setattr(limit, "interleaved", lambda *_, **__: rounds)
    monkeypatch.setattr(limit, "SIDE", 100)
    monkeypatch.setattr(limit, "COPIED", 1000)
    found = limit.machine_limit()
    assert found.multiply_adds_per_second == 100**3 / 0.25
    assert found.bytes_per_second == 2 * 1000 / 0.1
