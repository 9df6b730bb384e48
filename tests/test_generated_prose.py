"""What pages say of generated tasks is what the records say."""

from itertools import product
from statistics import fmean

from benchmarks.capacity_records import FOLDER as CAPACITY
from benchmarks.capacity_records import (
    HEADS,
    Readout,
    expected_error_pct,
    read_plan,
    read_runs,
)
from scalednl.lab.records.attention import read_attention
from scripts.capacity_section import HELD_PCT
from scripts.capacity_section import by_cell as capacity_cells
from scripts.generated import generated_runs
from tests.recorded import error_of, words_of


def test_what_the_pages_say_of_capacity() -> None:
    """Every number between the expectation and the table, and those of the README."""
    plan = read_plan(CAPACITY)
    runs = read_runs(CAPACITY, plan)
    errors = {key: fmean(values) for key, values in capacity_cells(runs).items()}
    assert len(runs) == len(list(plan.cells())) == 480
    page = words_of("capacity")
    *_, softmax, hardest = sorted(error for key, error in errors.items() if key[1] == "softmax")
    assert errors["linear", "softmax", 2, 16] == hardest
    assert f"at most {softmax:.1f} %, and of {hardest:.1f} % with 16 pairs" in page
    beyond: dict[str, list[float]] = {}
    for (readout, attention, width, pairs), error in errors.items():
        expected = expected_error_pct(plan.task.keys, pairs, width, readout)
        if attention == "scaled" and pairs == 2:
            assert error <= expected
        elif attention == "scaled":
            beyond.setdefault(readout, []).append(error - expected)
    linear, hidden = beyond["linear"], beyond["hidden"]
    assert f"is at most {max(linear):.1f} points above the bound" in page
    assert min(linear) > -0.1
    said = f"between {-min(hidden):.1f} points below the estimate and {max(hidden):.1f} above it"
    assert said in page
    moves = {
        readout: [
            errors[readout, "centred", width, pairs] - errors[readout, "scaled", width, pairs]
            for width, pairs in product(plan.widths, plan.pairs)
        ]
        for readout in plan.readouts
    }
    low, high = ({k: f"{f(v):+.1f}" for k, v in moves.items()} for f in (min, max))
    said = f"by {low['linear']} to {high['linear']} points behind a linear classifier, and by "
    assert f"{said}{low['hidden']} to {high['hidden']} behind a hidden layer" in page
    for readout, power in ("linear", 1), ("hidden", 2):
        for width, pairs in product(plan.widths, plan.pairs):
            error = errors[readout, "scaled", width, pairs]
            # Fewer than two pairs were not tried.
            if pairs <= max(2, width**power / 2):
                assert error <= HELD_PCT
            if pairs >= width**power and pairs > 2:
                assert error > HELD_PCT
    assert f"480 runs of {fmean(run.seconds for run in runs):.1f} s of processor time" in page


def test_what_the_page_says_of_heads() -> None:
    """Nothing behind a linear classifier; behind a hidden layer about what theory expects."""
    one, more = read_plan(CAPACITY), read_plan(HEADS)
    errors: dict[tuple[Readout, int, int, int], list[float]] = {}
    for run in (*read_runs(CAPACITY, one), *read_runs(HEADS, more)):
        cell = run.cell
        if cell.attention == "scaled" and cell.seed in more.seeds:
            key = cell.readout, cell.width, cell.pairs, cell.heads
            errors.setdefault(key, []).append(run.error_pct)
    spread, beyond = [], []
    for width, pairs in product(more.widths, more.pairs):
        by_heads = {
            readout: [fmean(errors[readout, width, pairs, heads]) for heads in (1, *more.heads)]
            for readout in more.readouts
        }
        spread.append(max(by_heads["linear"]) - min(by_heads["linear"]))
        for heads, error in zip((1, *more.heads), by_heads["hidden"], strict=True):
            theory = expected_error_pct(more.task.keys, pairs, width, "hidden", heads)
            beyond.append(error - theory)
    page = words_of("capacity")
    assert f"the means of a row differ by at most {max(spread):.1f} points" in page
    said = f"between {-min(beyond):.1f} points too high and {max(beyond):.1f} too low"
    assert said in page
    assert f"{len(read_runs(HEADS, more))} runs" in page


def test_what_the_pages_say_of_pairs() -> None:
    """Scores and errors in the list below the table, and how fast the scaled block learns."""
    runs = {training.recipe: found for training, found in generated_runs("pairs")}
    assert {name: len(found) for name, found in runs.items()} == dict.fromkeys(runs, 3)
    halfway = [run.epochs[1].test_error_pct or 0.0 for run in runs["pairs-scaled"]]
    page = words_of("data")
    assert f"the scaled block is at {min(halfway):.1f} to {max(halfway):.1f} %" in page
    page = words_of("attention")
    ranks: dict[str, list[str]] = {"cosine_rank": [], "length_rank": []}
    errors: dict[str, dict[str, list[float]]] = {}
    for attention in ("softmax", "scaled"):
        records = [read_attention(run.path / "attention") for run in runs[f"pairs-{attention}"]]
        known = [record for record in records if record is not None and record.ablations]
        for name, means in ranks.items():
            means.append(f"{fmean(one.blocks[0].scores[name].mean for one in known):.2f}")
        tested = [one.ablations.error_pct for one in known if one.ablations]
        errors[attention] = {name: [one[name] for one in tested] for name in tested[0]}
    assert f"mean query ({' and '.join(ranks['cosine_rank'])})" in page
    assert f"keys' lengths ({' and '.join(ranks['length_rank'])})" in page
    softmax, scaled = errors["softmax"], errors["scaled"]
    most = f"{min(scaled['uniform']):.0f} to {max(scaled['uniform']):.0f}"
    first, lost, last = softmax["uniform"]
    said = f"lose {most} points under uniform attention, and two softmax networks "
    assert f"{said}{first:.0f} and {last:.0f}" in page
    assert lost == 0
    assert max(softmax["rank_one"] + scaled["rank_one"]) <= 0.1
    *others, enough = scaled["column_mean"]
    assert max(*softmax["column_mean"], enough) <= 0.1
    assert f"the other two are at {others[0]:.1f} and {others[1]:.1f} %" in page


def test_what_the_page_says_of_recall() -> None:
    """Errors of each line of the table, as trained and with one row for all queries."""
    errors, one_row = {}, {}
    for training, runs in generated_runs("recall"):
        key = training.recipe.removeprefix("recall-"), training.heads, training.embed_channels
        errors[key] = [error_of(run) for run in runs]
        records = [read_attention(run.path / "attention") for run in runs]
        known = [one.ablations for one in records if one is not None and one.ablations]
        one_row[key] = [one.error_pct["column_mean"] for one in known]
    assert {len(values) for values in errors.values()} == {3}
    a_colour = 100 / 12
    softmax, scaled = ("softmax", 4, None), ("scaled", 4, None)
    assert max(errors[softmax]) == 0
    assert max(errors[scaled]) < a_colour + 1
    assert min(one_row[softmax]) > 49
    page = words_of("data")
    assert f"scaled at {min(one_row[scaled]):.1f} to {max(one_row[scaled]):.1f} %" in page
    assert fmean(errors["softmax", 1, 4]) > fmean(errors["scaled", 1, 4])
    trained = errors["one_row", 4, None]
    assert f"ends at {min(trained):.1f} to {max(trained):.1f} %" in page
    assert max(trained) < min(errors[scaled])
    assert one_row["one_row", 4, None] == trained
