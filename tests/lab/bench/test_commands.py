"""Every benchmark on toy sizes, from options to table, record and chart."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from scalednl.errors import UsageError
from scalednl.lab.bench import budget, orders, peers, planner, scaling, table3, tiles, training_loop
from scalednl.lab.bench.networks import Variant
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.peak import Peak, peak_of
from scalednl.lab.bench.peer_list import PEERS, Peer
from scalednl.lab.bench.session import Session, slug
from scalednl.lab.bench.shapes import block_step
from scalednl.lab.bench.table3_view import Line
from scalednl.lab.bench.timing import Timing

Shown = tuple[str, dict[str, Any], list[str]]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """A benchmark sets the threads of its process; the next test gets back what was there."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    """Runs a benchmark; gives what it printed, its record, and the names of its charts."""

    def run(command: Callable[..., None], *arguments: Any) -> Shown:
        out = tmp_path / "results"
        command(BenchOptions(quick=True, threads=1, repeats=5, out=out), *arguments)
        records = list(out.glob("*.json"))
        assert len(records) == 1
        record = json.loads(records[0].read_text())
        assert record["schema"].startswith("scalednl.bench.")
        assert record["origin"]["threads"] == 1
        assert record["origin"]["date"][:10] in records[0].name
        for chart in out.glob("*.svg"):
            assert ElementTree.parse(chart).getroot().tag.endswith("svg")
        return capsys.readouterr().out, record, [chart.name for chart in out.glob("*.svg")]

    return run


def _line(method: str, heads: int, ms: float, kept: int) -> Line:
    runs = tuple((ms + wobble) / 1e3 for wobble in (0, 1, 2, 1, 0))
    return Line(Variant(method, heads), Timing(runs), kept, 2 * kept, 1e-6 if heads else None)


def test_table3_shows_ratios_goals_and_the_paper(
    shown: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured and printed ratios side by side, and each goal with its verdict."""
    lines = [
        _line("no blocks", 0, 100, 1000),
        _line("softmax plain", 4, 300, 2000),
        _line("associative", 4, 140, 1280),
        _line("associative, rows", 4, 150, 1280),
        _line("auto, lean", 4, 130, 1070),
        *(_line("auto", heads, 120, 1130) for heads in (1, 4, 8)),
    ]
    monkeypatch.setattr(table3, "_measure", lambda *_: lines)
    times = {"auto": 0.5, "associative": 2.0, "floor": 0.4}
    inference = {name: Timing((seconds,) * 5) for name, seconds in times.items()}
    monkeypatch.setattr(table3, "inference_timings", lambda *_: (inference, 1e-7))
    text, record, charts = shown(table3.run)
    goals = {goal["what"]: goal for goal in record["goals"]}
    assert goals["extra time, auto / associative in its best shape"]["value"] == 0.5
    assert goals["extra time, auto / softmax plain"]["met"]
    assert goals["extra bytes kept, lean / associative"]["value"] == 0.25
    assert not goals["inference B1 C64 256x256, auto / two bare products"]["at_most"] < 1.25
    softmax = next(row for row in record["rows"] if row["method"] == "softmax plain")
    assert softmax["paper_train_step_ratio"] == pytest.approx(1.618, abs=1e-3)
    assert softmax["paper_memory_ratio"] == pytest.approx(1.850, abs=1e-3)
    assert "x1.62" in text
    assert "NOT MET" not in text
    assert len(charts) == 1


def test_table3_measures_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each variant gets times, bytes kept, a peak of its own process, and its error."""
    monkeypatch.setattr(table3, "peak_of", lambda *_, **__: Peak(5, 0.1))
    session = Session("table3", BenchOptions())
    plain, auto = table3._measure(session, [table3.PLAIN, Variant("auto", 8)], 2, 5)
    assert (len(plain.time.runs), plain.error) == (5, None)
    assert auto.kept > plain.kept
    assert auto.error is not None
    assert auto.error < 1e-5


def test_every_head_count_of_the_paper_is_measured() -> None:
    """The full table has the paper's 1, 2 and 4 heads, and 8, for every main method."""
    named = {(v.method, v.heads) for v in table3._variants((1, 2, 4, 8))}
    for method in ("softmax plain", "softmax fused", "associative", "auto"):
        assert {heads for name, heads in named if name == method} == {1, 2, 4, 8}
    assert ("auto", 8) in {(v.method, v.heads) for v in table3._variants((1, 4))}


def test_scaling_shows_growth_and_what_is_left_out(
    shown: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times by size, exponents, and a reason where a map would not fit."""
    monkeypatch.setattr(scaling, "SIDES", (4, 8, 16))
    monkeypatch.setattr(scaling, "WIDTHS", (16, 32))
    monkeypatch.setattr(scaling, "CHANNELS", 16)
    monkeypatch.setattr(scaling, "SIDE", 4)
    monkeypatch.setattr(budget, "peak_of", _made_up_peak)
    monkeypatch.setattr(tiles, "peak_of", _made_up_peak)
    text, record, charts = shown(scaling.run, 2**20)
    assert "softmax plain, forward + backward" in text
    left_out = [point for point in record["by_side"] if "left_out" in point]
    assert {point["left_out"] for point in left_out} == {"over 1.0 MiB"}
    assert {point["method"] for point in left_out} == {"softmax plain"}
    assert len(record["exponents"]) == 8
    assert record["tiles"]["error"] < 1e-5
    assert len(charts) == 1


def _made_up_peak(_: object, *arguments: Any, **__: Any) -> Peak:
    """Softmax takes 8 bytes a pair of pixels, everything else 1 KiB a pixel; time follows."""
    if len(arguments) == 1:
        return Peak(2**20, 0.0)
    method, _, side = arguments[:3]
    pixels = side * side
    if method == "softmax plain":
        return Peak(8 * pixels**2, 1e-9 * pixels**2)
    return Peak(1024 * pixels, 1e-7 * pixels * (pixels if method == "softmax fused" else 1))


def test_the_largest_map_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest multiple of 8 within the budget; extrapolated where a step takes too long."""
    monkeypatch.setattr(budget, "peak_of", _made_up_peak)
    found = {one.method: one for one in budget.largest_maps(2**30, 60.0, 64, "cpu")}
    assert (found["softmax plain"].side, found["softmax plain"].measured) == (104, True)
    assert (found["auto"].side, found["auto"].measured) == (1024, True)
    assert (found["softmax fused"].side, found["softmax fused"].measured) == (1024, False)
    assert "extrapolated" in found["softmax fused"].row()[-1]


def test_a_peak_is_that_of_a_process_of_its_own() -> None:
    """The input and its result are seen, and what this process holds is not."""
    ballast = torch.ones(2**26)
    peak = peak_of(block_step, "auto", 16, 256, False, "cpu", runs=1, with_inputs=True)
    one_map = 16 * 256 * 256 * 4
    assert 2 * one_map < peak.bytes < ballast.nbytes
    assert peak.seconds > 0


@pytest.mark.filterwarnings("ignore")
def test_peers_are_measured_or_said_to_be_missing(
    shown: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is not there has its line; the others have numbers."""
    monkeypatch.setattr(peers, "SETTINGS", ((2, 16, 6),))
    there = [peer for peer in PEERS if peer.package in ("", "mmcv")]
    gone = Peer("Nobody's", "no_such_package_at_all", "none", torch.nn.Identity)
    monkeypatch.setattr(peers, "PEERS", (*there, gone))
    text, record, _ = shown(peers.run)
    rows = {row["implementation"]: row for row in record["shapes"][0]["rows"]}
    assert rows["Nobody's"]["missing"] == "not installed: make peers"
    assert "not installed: make peers" in text
    ours = next(row for row in record["shapes"][0]["rows"] if row["attention"] == "scaled")
    assert ours["training_ratio"] == 1.0
    assert float(rows["torch scaled_dot_product_attention"]["agreement"]) < 1e-5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_runs_and_ours_agrees_where_it_can(peer: Peer) -> None:
    """Each peer takes a map and gives one; converted, it gives the same."""
    if reason := peer.missing():
        pytest.skip(f"{peer.package} is {reason}")
    found = peers._of_peer(peer, 16, torch.randn(2, 16, 6, 6, requires_grad=True))
    assert len(found) == 1 + peer.converts
    assert all(contender.agreement for contender in found)


def test_planner_shows_regret(shown: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each shape has a pick, the fastest and a regret of at least 1."""
    shapes = [
        planner.Shape(8, side, 8, 4, training) for side in (4, 20) for training in (True, False)
    ]
    monkeypatch.setattr(planner, "_shapes", lambda _: shapes)
    text, record, charts = shown(planner.run)
    assert len(record["rows"]) == 4
    assert all(row["regret"] >= 1 for row in record["rows"])
    assert "share of 4 picks" in text
    assert len(charts) == 1


def test_orders_show_every_method(
    shown: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each setting has all six methods, and three goals."""
    setting = orders.Setting(2, 16, 6, time=1e9, kept=0.9, softmax=1e9)
    monkeypatch.setattr(orders, "SETTINGS", (setting,))
    _, record, _ = shown(orders.run)
    assert [row["method"] for row in record["rows"]] == list(orders.METHODS)
    assert len(record["goals"]) == 3


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there_is_named() -> None:
    """--device cuda without a GPU is refused in one sentence."""
    with pytest.raises(UsageError, match="--device cuda is not there"):
        planner.run(BenchOptions(device="cuda"))


def test_a_processor_makes_a_file_name() -> None:
    """Trade marks and punctuation are left out."""
    assert slug("Intel(R) Xeon(R) Processor @ 2.80GHz") == "intel-xeon-2.80ghz"
    assert slug("AMD EPYC 7763 64-Core Processor") == "amd-epyc-7763-64-core"
    assert slug("") == "unknown"


def test_train_compares_the_loop_with_a_bare_one(
    shown: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both loops move the weights alike before they are timed; speeds and goals are shown."""
    monkeypatch.setattr(training_loop, "RECIPES", ("cifar10-preresnet8-plain-short",))
    text, record, _ = shown(training_loop.run)
    (row,) = record["rows"]
    assert row["error"] < 1e-5
    assert row["speed_over_bare"] == pytest.approx(
        row["bare"]["median_ms"] / row["train"]["median_ms"], rel=1e-3
    )
    assert "cifar10-preresnet8-plain-short" in text
