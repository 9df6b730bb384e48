"""Steps are timed with freed memory kept and with glibc's default settings."""

import pytest

from scalednl.lab import allocator
from scalednl.lab.allocator import Allocator, keep_memory
from scalednl.lab.bench.allocators import default_cells, timings_with_both
from scalednl.lab.bench.orders import steps
from scalednl.lab.records.timing import Timing

SHAPE = (8, 32, 32, "cpu")


@pytest.mark.skipif(keep_memory().state != "kept", reason="needs glibc and no MALLOC_ variable")
def test_the_twin_has_the_default_settings() -> None:
    """The same methods are timed in both, and only the twin's steps take page faults."""
    both = timings_with_both(steps(*SHAPE), steps, *SHAPE, repeats=5, warm_up=2)
    assert list(both.here) == list(both.default)
    here, default = (times["softmax plain"].page_faults for times in (both.here, both.default))
    assert here is not None
    assert default is not None
    assert 10 * here < default
    assert len(both.default["auto"].runs_ms) == 5


def test_without_kept_memory_there_is_no_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default alone is measured where it is what this process has."""
    monkeypatch.setattr(allocator, "_current", Allocator("default"))
    both = timings_with_both({"a": lambda: None}, steps, repeats=5)
    assert list(both.here) == ["a"]
    assert both.default == {}


def test_cells() -> None:
    """The time and its faults, or nothing."""
    assert default_cells(Timing.of([10.0] * 5, 1234)) == ("10.0 (10.0-10.0)", "1,234")
    assert default_cells(None) == ("", "")
