"""Table 3 on this machine."""

import pytest

from scalednl.lab.bench import table3
from scalednl.lab.bench.networks import PLAIN, Variant
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.peak import Peak
from scalednl.lab.bench.session import Session
from scalednl.lab.bench.table3 import Measured
from scalednl.lab.records.timing import Timing
from tests.lab.bench.builders import Show


def _measured(method: str, heads: int, ms: float, kept: int) -> Measured:
    runs = Timing.of([ms + wobble for wobble in (0, 1, 2, 1, 0)])
    return Measured(Variant(method, heads), runs, kept, 2 * kept, 1e-6 if heads else None)


def test_it_shows_ratios_and_the_paper(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured and printed ratios stand side by side, and nothing judges this project."""
    measured = [
        _measured("no blocks", 0, 100, 1000),
        _measured("softmax plain", 4, 300, 2000),
        _measured("auto", 8, 120, 1130),
    ]
    monkeypatch.setattr(table3, "measure", lambda *_: measured)
    shown = show(table3.run)
    plain, softmax, auto = shown.record.rows
    assert (plain.train_step_ratio, plain.paper_train_step_ratio, plain.error) == (1.0, None, None)
    assert softmax.paper_train_step_ratio == pytest.approx(1.618, abs=1e-3)
    assert softmax.paper_memory_ratio == pytest.approx(1.850, abs=1e-3)
    assert auto.train_step_ratio == round(121 / 101, 4)
    assert auto.bytes_kept_ratio == auto.peak_memory_ratio == 1.13
    assert "x1.62" in shown.text
    assert "MET" not in shown.text.upper().split()
    assert shown.charts == ["table3"]


def test_it_measures_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each variant gets times, bytes kept, a peak of its own process, and its error."""
    monkeypatch.setattr(table3, "peak_of", lambda *_, **__: Peak(5, 0.1))
    session = Session("table3", BenchOptions())
    plain, auto = table3.measure(session, [PLAIN, Variant("auto", 8)], 2, 5)
    assert (len(plain.time.runs_ms), plain.error, plain.peak) == (5, None, 5)
    assert auto.kept > plain.kept
    assert auto.error is not None
    assert auto.error < 1e-5


def test_every_head_count_of_the_paper_is_measured() -> None:
    """The full table has the paper's 1, 2 and 4 heads, and 8, for every main method."""
    named = {(v.method, v.heads) for v in table3.variants_of((1, 2, 4, 8))}
    for method in ("softmax plain", "softmax fused", "associative", "auto"):
        assert {heads for name, heads in named if name == method} == {1, 2, 4, 8}
    assert ("auto", 8) in {(v.method, v.heads) for v in table3.variants_of((1, 4))}
