"""Exported networks against eager."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from benchmarks import deployment
from benchmarks.records import DeploymentRecord, DeploymentRow
from scalednl import NonLocal2d
from scalednl.errors import CommandError
from scalednl.lab.records.bench import find_bench_records
from scalednl.lab.records.timing import Timing
from tests.lab.bench.builders import Show, Shown

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def _program(change: float) -> Callable[..., Callable[[], Tensor]]:
    """A stand-in for an exporter, whose program differs from the network by a factor."""

    def export(network: nn.Module, x: Tensor, path: Path) -> Callable[[], Tensor]:
        assert not network.training
        assert path.parent.is_dir()
        return lambda: change * deployment._eager(network, x)

    return export


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small network; exporters are tested in tests/traced, where shapes are not checked."""
    networks = {"small": (16, deployment._fully_convolutional)}
    monkeypatch.setattr(deployment, "NETWORKS", networks)
    monkeypatch.setattr(deployment, "_onnxruntime", _program(1.0))
    monkeypatch.setattr(deployment, "_compiled", _program(1.0))


@pytest.mark.usefixtures("_small")
def test_it_shows_every_way(show: Show) -> None:
    """Each network has a time by every way, and the largest error of them."""
    shown: Shown[DeploymentRecord] = show(deployment.run)
    (row,) = shown.record.rows
    assert list(row.times) == ["eager", "onnxruntime", "AOTInductor"]
    assert 0 < row.error < 1e-5
    assert "small, 16 px" in shown.text


@pytest.mark.usefixtures("_small")
def test_a_wrong_program_is_not_timed(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that differs from the network by 1 % ends the benchmark with its name."""
    monkeypatch.setattr(deployment, "_compiled", _program(1.01))
    with pytest.raises(CommandError, match=r"small by AOTInductor is 1\.0e-02 away"):
        show(deployment.run)


def test_the_networks_have_blocks_that_matter() -> None:
    """Each network that needs no other package gives finite scores, and its blocks change them."""
    for name in ("PreResNet-56, 3 blocks", "fully convolutional, 1 block"):
        torch.manual_seed(0)
        network = deployment._with_statistics(deployment.NETWORKS[name][1](), 32)
        x = torch.randn(1, 3, 32, 32)
        scores = deployment._eager(network, x)
        assert scores.isfinite().all()
        for module in network.modules():
            if isinstance(module, NonLocal2d):
                assert isinstance(module.norm, nn.BatchNorm2d)
                nn.init.zeros_(module.norm.weight)
        assert (deployment._eager(network, x) - scores).norm() > 0.01 * scores.norm()


def test_the_page_quotes_the_record() -> None:
    """Every line of the table of docs/deployment.md is the stored record's, as is its origin."""
    (record,), damaged = find_bench_records([RESULTS], {"deployment": DeploymentRecord})
    assert isinstance(record, DeploymentRecord)
    assert damaged == []
    assert not record.is_disturbed
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    table = page.partition("<!-- latencies -->")[2].partition("<!-- end -->")[0]
    assert table.strip().splitlines()[2:] == [_line(row) for row in record.rows]
    assert f"median of {record.settings.repeats} runs" in page
    assert f"{record.origin.machine}, torch {record.origin.packages['torch']}" in page


def _exported(row: DeploymentRow) -> list[Timing]:
    return [time for way, time in row.times.items() if way != "eager"]


def _line(row: DeploymentRow) -> str:
    eager = row.times["eager"]
    cells = [f"{time.median_ms:.1f} (x{time.ratio(eager):.2f})" for time in _exported(row)]
    return f"| {row.network}, {row.side} px | {eager.median_ms:.1f} | {' | '.join(cells)} |"
