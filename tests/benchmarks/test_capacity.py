"""The task of the capacity benchmark, its records, and the section made of them."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch

from benchmarks import capacity
from benchmarks.capacity_records import (
    FOLDER,
    HEADS,
    Attention,
    CapacityPlan,
    CapacityRun,
    Cell,
    Readout,
    Task,
    expected_error_pct,
    read_plan,
    read_runs,
    record_path,
    write_run,
)
from scalednl.errors import CommandError, UsageError
from scalednl.lab.records.typed_json import write_record
from scripts.capacity_section import (
    FIGURE,
    capacity_figure,
    capacity_section,
    heads_section,
    held_section,
)

TASK = Task(keys=5, side=3, channels=8, batch=16, steps=4, test_maps=30)
PLAN = CapacityPlan(TASK, ("linear", "hidden"), ("softmax", "centred"), (2, 4), (2,), (0, 1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small plan."""
    write_record(tmp_path / "plan.json", PLAN)
    return tmp_path


def test_a_map_names_its_class() -> None:
    """K pairs of different keys, one cue that names one of them, and its value as the class."""
    maps = capacity.make_maps(TASK, 4, 200, torch.Generator().manual_seed(0))
    stored, cue = maps.x[:, :10].flatten(2), maps.x[:, 10:].flatten(2)
    by_key = stored.unflatten(1, (2, 5)).sum((1, 3))
    assert by_key.max() == 1
    assert torch.equal(by_key.sum(1), torch.full((200,), 4.0))
    assert maps.x.sum((1,)).max() == 1, "no pixel has two things"
    assert torch.equal(cue.sum((1, 2)), torch.ones(200))
    image = torch.arange(200)
    assert torch.equal(cue.sum(1).argmax(1), maps.cue)
    asked = cue.sum(2).argmax(1)
    assert torch.equal(stored[image, asked + 5 * maps.label].sum(1), torch.ones(200))
    assert 60 < maps.label.sum() < 140


@pytest.mark.parametrize("attention", ["softmax", "scaled", "centred"])
def test_the_network_has_what_the_cell_says(attention: Attention) -> None:
    """One head of the given width, keys centred or not, and a readout with or without a layer."""
    network = capacity.RecallNetwork(TASK, Cell("linear", attention, 2, 3, 0))
    assert (network.block.heads, network.block.embed_channels) == (1, 3)
    cut = capacity.RecallNetwork(TASK, Cell("linear", attention, 2, 4, 0, heads=2))
    assert (cut.block.heads, cut.block.embed_channels) == (2, 4)
    assert network.block.attention == ("softmax" if attention == "softmax" else "scaled")
    assert network.block.center == ("keys" if attention == "centred" else None)
    assert len(network.classifier) == 1
    assert len(capacity.RecallNetwork(TASK, Cell("hidden", attention, 2, 3, 0)).classifier) == 5


def test_an_easy_task_is_learnt() -> None:
    """Two keys in four channels: far below chance after 150 steps; the same again to the bit."""
    task = Task(keys=2, side=2, channels=16, batch=32, steps=150, lr=0.01, test_maps=200)
    cell = Cell("linear", "scaled", 2, 4, 0)
    run = capacity.train(task, cell)
    assert run.error_pct < 10
    assert run.train_loss < 0.5
    assert run.origin.threads == torch.get_num_threads()
    few = replace(task, steps=5)
    assert capacity.train(few, cell).train_loss == capacity.train(few, cell).train_loss


def test_interrupted_and_resumed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has a record is not trained again; the training that was cut off is."""
    trained: list[Cell] = []

    def train(task: Task, cell: Cell) -> CapacityRun:
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(cell)
        return CapacityRun(cell, task, 1.0, 0.1, 2.0)

    monkeypatch.setattr(capacity, "train", train)
    options = capacity.Options(folder)
    with pytest.raises(KeyboardInterrupt):
        capacity.main(options)
    assert [run.cell for run in read_runs(folder, PLAN)] == trained == list(PLAN.cells())[:3]
    cells = list(PLAN.cells())
    assert capacity.missing(folder, ()) == cells[3:]
    assert capacity.missing(folder, (1,)) == [cell for cell in cells if cell.seed == 1]
    with pytest.raises(UsageError, match=r"--seeds 7 is not declared in .*plan.json: it has 0, 1"):
        capacity.missing(folder, (0, 7))
    for cell in cells[3:]:
        write_run(folder, CapacityRun(cell, TASK, 1.0, 0.1, 2.0))
    capacity.main(options)
    assert capsys.readouterr().out.endswith("nothing is missing\n")


def test_records_of_another_plan_are_refused(folder: Path) -> None:
    """A folder without a plan, and a record of another task, are sentences."""
    cell = next(PLAN.cells())
    write_run(folder, CapacityRun(cell, replace(TASK, steps=5), 1.0, 0.1, 2.0))
    with pytest.raises(CommandError, match=r"seed0.json is of another plan: remove it"):
        read_runs(folder, PLAN)
    with pytest.raises(CommandError, match=r"has no plan.json that declares the runs"):
        read_plan(folder / "runs")


def test_what_theory_expects() -> None:
    """No error with a channel for every key; more pairs cost, channels and a hidden layer help."""
    assert expected_error_pct(32, 16, 32, "linear") == 0
    assert expected_error_pct(32, 16, 64, "hidden") == 0
    # (V - d) / (d (V - 1)) (K - 1) = 1: noise of the size of the signal.
    assert expected_error_pct(9, 5, 3, "linear") == pytest.approx(15.87, abs=0.01)
    for readout in get_args(Readout):
        by_pairs = [expected_error_pct(32, pairs, 4, readout) for pairs in (2, 4, 8, 16)]
        by_width = [expected_error_pct(32, 8, width, readout) for width in (2, 4, 8, 16)]
        assert by_pairs == sorted(by_pairs)
        assert by_width == sorted(by_width, reverse=True)
    assert expected_error_pct(32, 8, 4, "hidden") < expected_error_pct(32, 8, 4, "linear") < 50
    linear, hidden = (
        [expected_error_pct(32, 8, 8, readout, heads) for heads in (1, 2, 4)]
        for readout in get_args(Readout)
    )
    assert linear[0] == linear[1] == linear[2]
    assert hidden[0] < hidden[1] < hidden[2]


def test_the_section(folder: Path) -> None:
    """Counts, means with n, what is held, and a figure; one sentence while there is no record."""
    assert capacity_section(folder) == "No run has finished yet (0 of 16)."
    assert held_section(folder) == "No run has finished yet."
    assert capacity_figure(folder) is None
    for cell in PLAN.cells():
        if cell != Cell("hidden", "centred", 4, 2, 1):
            error = {"softmax": 1.0, "centred": 4.0 * cell.pairs + cell.seed}[cell.attention]
            write_run(folder, CapacityRun(cell, TASK, error, 0.1, 2.0))
    text = capacity_section(folder)
    assert text.startswith("15 of 16 runs.")
    held = held_section(folder)
    assert "| softmax | linear classifier | 4 or more |" in held
    assert "| scaled, centred keys | linear classifier | fewer than 2 |" in held
    assert "| linear classifier | 2 | 4 | 1.00 ± 0.00 (n=2) | 16.50 ± 0.71 (n=2) |" in text
    assert "| hidden layer | 2 | 4 | 1.00 ± 0.00 (n=2) | 16.00 (n=1) |" in text
    figure = capacity_figure(folder)
    assert figure is not None
    assert "prefers-color-scheme:dark" in figure
    assert len(re.findall(r"d = 2, ", figure)) == 2


def test_heads_stand_beside_one_head(folder: Path, tmp_path: Path) -> None:
    """The same seeds of both plans, and the theory of each number of heads."""
    more = tmp_path / "more"
    seeds, heads = (1,), (2,)
    plan = replace(PLAN, attentions=("scaled",), pairs=(4,), seeds=seeds, heads=heads)
    write_record(folder / "plan.json", replace(PLAN, attentions=("scaled",)))
    more.mkdir()
    write_record(more / "plan.json", plan)
    assert heads_section(folder, more) == "No run has finished yet."
    for where, cells in (folder, replace(PLAN, attentions=("scaled",))), (more, plan):
        for cell in cells.cells():
            error = 10.0 * cell.heads + cell.seed
            write_run(where, CapacityRun(cell, TASK, error, 0.1, 2.0))
    theory = ", ".join(f"{expected_error_pct(5, 4, 2, 'hidden', heads):.1f}" for heads in (1, 2))
    row = f"| hidden layer | 2 | 4 | 11.00 (n=1) | 21.00 (n=1) | {theory} |"
    assert row in heads_section(folder, more)


@pytest.mark.parametrize("folder", [FOLDER, HEADS], ids=["one head", "heads"])
def test_a_declared_plan(folder: Path) -> None:
    """All records belong to it, and name their commit."""
    plan = read_plan(folder)
    runs = read_runs(folder, plan)
    assert len(list((folder / "runs").glob("*"))) == len(runs)
    assert all(run.origin.commit for run in runs)
    assert all(record_path(folder, run.cell).is_file() for run in runs)


def test_the_figure() -> None:
    """It is the one drawn from the records."""
    drawn, stored = capacity_figure(), FOLDER / FIGURE
    assert (stored.read_text(encoding="utf-8") if stored.is_file() else None) == drawn
