"""How long trainings take."""

from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.errors import CommandError
from scalednl.lab.config import Experiment
from scalednl.lab.paper.costs import training_multiply_adds
from scalednl.lab.paper.hours import paper_hours, rates
from scalednl.lab.recipes import find_recipe
from scalednl.lab.records.run import ErrorSummary, Result, RunSetup
from scalednl.lab.records.runs import RunRecord

SCALED = find_recipe("pairs-scaled")


def _finished(seconds: float, experiment: Experiment = SCALED, **setup: object) -> RunRecord:
    result = Result(status="finished", seconds=seconds, test_error_pct=ErrorSummary(1.0))
    made = RunSetup(device="cpu", threads=2, **setup)  # type: ignore[arg-type]
    return RunRecord("run", Path("run"), "finished", "", experiment, made, result)


def test_a_default_until_something_has_finished() -> None:
    """Threads multiply it; runs that count for nothing leave it."""
    one, two = (rates([], threads).seconds(SCALED) for threads in (1, 2))
    assert one == pytest.approx(2 * two)
    unfinished = replace(_finished(10.0), state="interrupted")
    assert rates([unfinished, _finished(0.0)], 2).seconds(SCALED) == two
    assert "no run has finished here yet" in rates([], 2).words


def test_finished_runs_set_the_pace() -> None:
    """Their own cells take the mean of their times, others the median speed."""
    found = rates([_finished(10.0), _finished(30.0), _finished(20.0)])
    assert found.seconds(SCALED) == pytest.approx(20)
    assert found.usual == pytest.approx(training_multiply_adds(SCALED) / 20)
    longer = replace(SCALED, epochs=3 * SCALED.epochs)
    assert found.seconds(longer) == pytest.approx(60)
    assert "the median of 3 finished runs here on cpu" in found.words


def test_threads_scale_what_a_processor_took() -> None:
    """Two threads took 10 s, so one takes 20; a GPU's time stays."""
    assert rates([_finished(10.0)], 1).seconds(SCALED) == pytest.approx(20)
    gpu = replace(_finished(10.0), setup=RunSetup(device="cuda", threads=2))
    assert rates([gpu], 1).seconds(SCALED) == pytest.approx(10)


def test_half_precision_has_a_pace_of_its_own() -> None:
    """A bf16 run says nothing about the cell in float32, and the other way round."""
    half = replace(SCALED, precision="bf16")
    found = rates([_finished(10.0), _finished(4.0, half)])
    assert found.seconds(SCALED) == pytest.approx(10)
    assert found.seconds(half) == pytest.approx(4)


def test_networks_outside_the_tables_have_their_own_time_only() -> None:
    """A run whose work cannot be counted sets no speed, but its cell has its time."""
    odd = replace(SCALED, model="mine")
    found = rates([_finished(7.0, odd)], 2)
    assert found.seconds(odd) == 7.0
    assert "no run has finished" in found.words


def test_networks_from_elsewhere_need_a_measured_time() -> None:
    """Their work is not counted: the sentence names the network and what measures it."""
    mine = replace(SCALED, model="timm:resnet18", at=("layer2",))
    with pytest.raises(CommandError, match=r"the time of timm:resnet18 is not known.* --dry-run"):
        rates([_finished(10.0)]).seconds(mine)
    assert rates([_finished(10.0, mine)]).seconds(mine) == 10


def test_the_papers_gpu_is_that_of_table_3() -> None:
    """62.37 ms per batch of 128 of PreResNet-56 without blocks: 1.11 hours for 164 epochs."""
    hours = paper_hours(find_recipe("cifar10-preresnet56-plain"))
    assert hours == pytest.approx(50_000 / 128 * 164 * 0.06237 / 3600)
