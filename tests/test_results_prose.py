"""What pages about results say in words is what the records say."""

import re
from collections import Counter
from itertools import product
from statistics import fmean

import numpy as np
from scipy import stats

from benchmarks.capacity_records import FOLDER as CAPACITY
from benchmarks.capacity_records import (
    HEADS,
    Readout,
    expected_error_pct,
    read_plan,
    read_runs,
)
from scalednl.lab.paper.claims import claims
from scalednl.lab.paper.evidence import evidence_lines
from scalednl.lab.paper.grids import paper_setting
from scalednl.lab.paper.scales import PaperSetting
from scalednl.lab.records.attention import read_attention
from scalednl.lab.records.runs import Cells, RunRecord, by_cell, find_runs, read_run
from scalednl.lab.report.aggregate import last_errors
from scalednl.lab.stats import contrast
from scalednl.models.published import FOLDER as WEIGHTS
from scripts.capacity_section import HELD_PCT
from scripts.capacity_section import by_cell as capacity_cells
from scripts.generated import generated_runs
from scripts.result_tables import AGAIN, RUNS, SCALE
from scripts.results import PAGES
from tests.recorded import RECORDED, WITH_ATTENTION

LINE_8 = "cifar100-preresnet32-{}-short-norm_init-0.0-allx12-wd0.0001-"
LINE_1 = [
    path
    for path in WITH_ATTENTION
    if re.fullmatch(r"cifar10-preresnet20-(softmax|scaled)-short-10000x10-seed\d", path.name)
]


def words_of(page: str) -> str:
    """The text of a page, with one space between words."""
    return " ".join(PAGES[page].read_text(encoding="utf-8").split())


def errors_of(setting: PaperSetting, runs: Cells) -> list[float]:
    """Test errors of the runs of a setting that count."""
    experiment = SCALE.experiment(setting)
    members = [] if experiment is None else runs.get(experiment.cell, ())
    return [value for run in members if run.counts and (value := run.last_error) is not None]


def started(name: str) -> list[RunRecord]:
    """The runs whose folder is called `name` and a seed, in the order of their seeds."""
    return [read_run(path) for path in sorted(RUNS.glob(f"{name}seed*"))]


def error_of(run: RunRecord) -> float:
    """The test error of a run that has finished."""
    assert run.last_error is not None
    return run.last_error


def interval(first: dict[int, float], second: dict[int, float], unit: str = "") -> str:
    """First - second, seed by seed, as the page writes it in a sentence."""
    found = contrast([first[seed] - second[seed] for seed in first])
    assert found.low is not None
    assert found.high is not None
    low, high = (f"{value:.2f}".replace("-", "−") for value in (found.low, found.high))
    return f"{found.mean:.2f}{unit} [{low}, {high}]"


def test_blocks_are_no_gain_at_this_size() -> None:
    """README and results page: every kind of block has a higher mean error than none."""
    cells = by_cell(find_runs([RUNS]))
    alone = paper_setting("cifar10", attention="plain")
    position = paper_setting("cifar10", attention="plain", position=True)
    none = [fmean(errors_of(setting, cells)) for setting in (alone, position)]
    means = {
        cell: fmean(run.last_error for run in runs if run.last_error is not None)
        for cell, runs in cells.items()
        if runs[0].experiment is not None
        and (runs[0].experiment.data, runs[0].experiment.model) == ("cifar10", "preresnet20")
        and runs[0].experiment.blocks
        and runs[0].experiment.block.norm_init == 1
    }
    assert len(means) >= 12
    assert min(means.values()) > max(none), "change README.md and docs/results.md"


def test_what_the_page_says_the_plan_leaves_out() -> None:
    """The claims of which some data set or network is in no line of the plan."""
    lines = (line.artefact.trainings(SCALE) for line in evidence_lines())
    trained = {experiment.cell for line in lines for _, experiment in line}
    missing: dict[str, set[str]] = {}
    for claim in claims():
        for row in claim.rows:
            wanted = [one for term in row if (one := SCALE.experiment(term.setting)) is not None]
            if len(wanted) == len(row) and not trained >= {one.cell for one in wanted}:
                what = "ours" if claim.is_ours else claim.artefact
                missing.setdefault(what, set()).add(wanted[0].data)
    assert missing == {
        "table2_initialization": {"cifar100"},
        "figure2_embedding_channels": {"cifar100"},
        "control_no_scale": {"cifar100"},
        "table3_heads": {"cifar10", "cifar100"},
        "ours": {"cifar100"},
    }, "change docs/results.md"


def test_what_the_page_says_of_single_runs() -> None:
    """Training errors follow test errors; without one run He's initialisation would be judged."""
    cells = by_cell(find_runs([RUNS]))
    small = [runs for runs in cells.values() if runs[0].setup.train_images == 10_000]
    tested = [fmean(map(error_of, runs)) for runs in small]
    trained = [fmean(run.epochs[-1].train_error_pct for run in runs) for runs in small]
    assert stats.spearmanr(tested, trained).statistic > 0.9
    he = errors_of(paper_setting("cifar10", attention="softmax", init="he"), cells)
    usual = errors_of(paper_setting("cifar10", attention="softmax"), cells)
    worse = np.subtract(he, usual)
    assert (worse.argmax(), worse.min() > 0, len(worse)) == (0, True, 6), "change docs/results.md"
    assert stats.ttest_1samp(worse, 0).pvalue > 0.01 > 12 * stats.ttest_1samp(worse[1:], 0).pvalue


def test_what_the_page_says_of_training_errors() -> None:
    """How training and test errors go together over the trainings on CIFAR-10."""
    cells = [
        [run for run in runs if run.counts]
        for runs in by_cell(find_runs([RUNS])).values()
        if runs[0].experiment is not None and runs[0].experiment.data == "cifar10"
    ]
    tested = [fmean(map(error_of, runs)) for runs in cells]
    trained = [fmean(run.epochs[-1].train_error_pct for run in runs) for runs in cells]
    said = f"{len(cells)} trainings on CIFAR-10 the rank correlation of the means is "
    said += f"{stats.spearmanr(tested, trained).statistic:.2f})"
    assert said in words_of("results")


def test_what_the_pages_say_of_line_8() -> None:
    """Scaled blocks have the lower test and training error in every seed of CIFAR-100."""
    softmax, scaled = (started(LINE_8.format(name)) for name in ("softmax", "scaled"))
    both = list(zip(softmax, scaled, strict=True))
    assert [(a.seed, b.seed) for a, b in both] == [(seed, seed) for seed in range(4)]
    gaps: list[list[float]] = []
    for worse, better in both:
        assert error_of(worse) > error_of(better)
        pairs = zip(worse.epochs, better.epochs, strict=True)
        gaps.append([a.train_error_pct - b.train_error_pct for a, b in pairs])
    assert min(gap[-1] for gap in gaps) > 0
    gap = np.mean(gaps, axis=0)
    page = words_of("results")
    assert max(gap[:7]) < min(gap[7:])
    said = f"until epoch 8 and then stays between {min(gap[7:]):.1f} and {max(gap[7:]):.1f} points"
    assert said in page
    tested = [
        [
            (a.test_error_pct or 0.0) - (b.test_error_pct or 0.0)
            for a, b in zip(worse.epochs[-2:], better.epochs[-2:], strict=True)
        ]
        for worse, better in both
    ]
    assert all(before > after for before, after in tested)
    before, after = np.mean(tested, axis=0)
    assert f"from {before:.2f} to {after:.2f} points on average" in page
    times = [slower.epochs[-1].seconds / faster.epochs[-1].seconds for slower, faster in both]
    assert f"took {min(times):.2f} to {max(times):.2f} times as long" in page


def test_what_the_page_says_in_short() -> None:
    """Means and intervals of softmax against scaled, and of scaled against position alone."""
    page = words_of("results")
    softmax, scaled = (last_errors(started(LINE_8.format(name))) for name in ("softmax", "scaled"))
    ends = [f"{fmean(errors.values()):.2f} %" for errors in (scaled, softmax)]
    assert f"scaled blocks end at {ends[0]} and softmax blocks at {ends[1]}" in page
    assert f"{interval(softmax, scaled, ' points')} apart" in page
    names = "softmax-short", "scaled-short", "plain-short-position-only"
    small = [f"cifar10-preresnet20-{name}-10000x10-" for name in names]
    softmax, scaled, alone = (last_errors(started(name)) for name in small)
    assert f"CIFAR-10 the difference is {interval(softmax, scaled)}. Pooled" in page
    assert f"scaled blocks of 4 heads by {interval(scaled, alone, ' points')};" in page
    usual, he, directions, scaled = (
        last_errors(started(f"cifar10-preresnet20-{what}-10000x10-"))
        for what in (
            "softmax-short-heads-1",
            "softmax-short-heads-1-init-he",
            "softmax-short-view-direction-heads-1",
            "scaled-short-heads-1-init-0.01",
        )
    )
    assert f"scaled blocks are {interval(usual, scaled, ' points')} lower, in six of six" in page
    assert all(usual[seed] > scaled[seed] for seed in range(6))
    assert all(he[seed] > usual[seed] for seed in range(6))
    others = {seed: error for seed, error in he.items() if seed != 0}
    said = f"by {interval(he, usual, ' points')} and without one outlying run by "
    assert f"{said}{interval(others, usual)};" in page
    assert f"without magnitudes are {interval(usual, directions, ' points better')}, not" in page


def test_what_the_page_says_of_published_networks() -> None:
    """Errors of the networks of CIFAR-10 that come with the package."""
    errors = [
        f"{read_run(WEIGHTS / f'cifar10-preresnet20-{name}').last_error:.2f} %"
        for name in ("plain", "softmax", "scaled")
    ]
    page = words_of("results")
    assert f"{errors[0]} without blocks (and without the encoding), {errors[1]} with" in page
    assert f"{errors[1]} with softmax and {errors[2]} with scaled blocks" in page


def test_what_the_page_says_of_attention() -> None:
    """The ranges and counts in the list below the tables of attention are those of the records."""
    gains: dict[str, dict[str, list[float]]] = {"softmax": {}, "scaled": {}}
    narrowed = 0
    for path in LINE_1:
        record = read_attention(path / "attention")
        assert record is not None
        assert record.ablations is not None
        first, errors = record.blocks[0], record.ablations.error_pct
        for name, error in errors.items():
            gains[first.attention].setdefault(name, []).append(error - errors["unchanged"])
        change = {
            name: first.scores[name].mean - first.untrained[name].mean
            for name in ("key_share", "query_angles")
        }
        narrowed += change["key_share"] > 0 > change["query_angles"]
    assert (narrowed, len(LINE_1)) == (11, 12)
    softmax, scaled = gains["softmax"], gains["scaled"]
    assert max(softmax["column_mean"]) <= 2
    for name, low, high in (("pair", 9, 28), ("uniform", 11, 28)):
        assert (round(min(softmax[name])), round(max(softmax[name]))) == (low, high)
    assert (round(min(scaled["uniform"])), round(max(scaled["uniform"]))) == (1, 6)
    assert max(scaled["rank_one"]) < 1


def test_what_the_page_says_of_attention_on_cifar100() -> None:
    """Effective keys and errors with replaced maps, of one network of each kind."""
    blocks, errors = [], []
    for attention in ("softmax", "scaled"):
        start = f"cifar100-preresnet32-{attention}"
        (path,) = (one for one in WITH_ATTENTION if one.name.startswith(start))
        record = read_attention(path / "attention")
        assert record is not None
        assert record.ablations is not None
        blocks.append(record.blocks[0])
        errors.append(record.ablations.error_pct)
    page = words_of("results")
    keys, (softmax, scaled) = blocks[0].scores["effective_keys"].mean, errors
    assert f"looks at {keys:.1f} pixels on average" in page
    said = f"({softmax['column_mean']:.2f} % instead of {softmax['unchanged']:.2f} %). With uniform"
    assert f"{said} maps it is at {softmax['uniform']:.2f} %" in page
    assert f"is at {scaled['column_mean']:.2f} % with one row" in page
    lost = {name: error - scaled["unchanged"] for name, error in scaled.items()}
    assert (round(lost["column_mean"]), round(lost["rank_one"])) == (3, 1)


def test_what_the_page_says_of_rounding() -> None:
    """Errors of runs trained again, and the number of records without a model of processor."""
    page = words_of("results")
    pairs = [(read_run(path), read_run(RUNS / path.name)) for path in sorted(AGAIN.iterdir())]
    again, first = ([f"{run.last_error:.2f}" for run in runs] for runs in zip(*pairs, strict=True))
    said = f"{' and '.join(again)} % instead of {' and '.join(first)} %"
    assert said in page
    machines = Counter(str(read_run(path).origin.machine) for path in RECORDED)
    (_, most), (_, nameless), (newer, count) = machines.most_common()
    centred = [path for path in RECORDED if "-center-keys-" in path.name]
    assert {read_run(path).origin.machine for path in centred} == {newer}
    said = f"{most} have one and the same, the {count} of line 7 a newer one, {nameless} older"
    assert said in page


def test_what_the_page_says_of_centred_keys() -> None:
    """Line 7: a higher error in every seed."""
    cells = by_cell(find_runs([RUNS]))
    names = ("10000x10-seed", "center-keys-10000x10-seed")
    plain, centred = (
        {
            run.seed: error_of(run)
            for runs in cells.values()
            for run in runs
            if run.name.startswith(f"cifar10-preresnet20-scaled-short-{name}")
        }
        for name in names
    )
    assert plain.keys() == centred.keys() == set(range(6))
    differences = [centred[seed] - plain[seed] for seed in plain]
    assert min(differences) > 0
    said = f"higher in all six seeds, by {fmean(differences):.2f} points on average"
    assert said in words_of("sizes")


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
