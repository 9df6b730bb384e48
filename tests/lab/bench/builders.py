"""A benchmark on toy sizes: what it prints, and what it writes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from xml.etree import ElementTree

import pytest
import torch

from benchmarks.records import ALL_KINDS
from scalednl.lab.bench import limit
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.peak import Peak
from scalednl.lab.records.bench import BenchRecord, read_bench_record

Record = TypeVar("Record", bound=BenchRecord)


@dataclass(frozen=True)
class Shown(Generic[Record]):
    """What a benchmark printed, its record, and the names of its charts."""

    text: str
    record: Record
    charts: list[str]


Show = Callable[..., Shown[Any]]


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A benchmark sets the threads of its process; the next test gets the old number back.

    The machine's limit is measured on small matrices.
    """
    monkeypatch.setattr(limit, "SIDE", 128)
    monkeypatch.setattr(limit, "COPIED", 1 << 16)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def run_benchmark(
    out: Path, command: Callable[..., Record], *arguments: Any
) -> tuple[Record, list[str]]:
    """Its record, which reads back from disk as what was returned, and the names of its charts."""
    record = command(BenchOptions(quick=True, threads=1, repeats=5, out=out), *arguments)
    (path,) = out.glob("*.json")
    assert read_bench_record(path, ALL_KINDS) == record
    assert record.origin.threads == 1
    assert path.name.startswith(f"{record.KIND}_quick_{record.origin.date[:10]}")
    for chart in out.glob("*.svg"):
        assert ElementTree.parse(chart).getroot().tag.endswith("svg")
    return record, sorted(chart.name.partition("_quick")[0] for chart in out.glob("*.svg"))


@pytest.fixture
def show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Show:
    """Runs a benchmark; its one record on disk reads back as what it returned."""

    def run(command: Callable[..., Record], *arguments: Any) -> Shown[Record]:
        record, charts = run_benchmark(tmp_path / "results", command, *arguments)
        return Shown(capsys.readouterr().out, record, charts)

    return run


def made_up_peak(_: object, *arguments: Any, **__: Any) -> Peak:
    """Softmax takes 8 bytes per pair of pixels, all else 1 KiB per pixel; time follows."""
    if len(arguments) == 1:
        return Peak(2**20, 0.0)
    method, _, side = arguments[:3]
    pixels = side * side
    if method == "softmax plain":
        return Peak(8 * pixels**2, 1e-9 * pixels**2)
    return Peak(1024 * pixels, 1e-7 * pixels * (pixels if method == "softmax fused" else 1))
