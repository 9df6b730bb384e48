"""What pages say of trainings on real images is what the records say."""

import re
from collections import Counter
from statistics import fmean

import numpy as np
from scipy import stats

from scalednl.lab.paper.claims import claims
from scalednl.lab.paper.evidence import evidence_lines
from scalednl.lab.paper.grids import paper_setting
from scalednl.lab.paper.scales import PaperSetting
from scalednl.lab.records.attention import read_attention
from scalednl.lab.records.runs import Cells, RunRecord, by_cell, find_runs, read_run
from scalednl.lab.report.aggregate import last_errors
from scalednl.lab.stats import contrast
from scalednl.models.published import FOLDER as WEIGHTS
from scripts.result_tables import AGAIN, RUNS, SCALE
from tests.recorded import RECORDED, WITH_ATTENTION, error_of, words_of

LINE_8 = "cifar100-preresnet32-{}-short-norm_init-0.0-allx12-wd0.0001-"
LINE_1 = [
    path
    for path in WITH_ATTENTION
    if re.fullmatch(r"cifar10-preresnet20-(softmax|scaled)-short-10000x10-seed\d", path.name)
]


def errors_of(setting: PaperSetting, runs: Cells) -> list[float]:
    """Test errors of the runs of a setting that count."""
    experiment = SCALE.experiment(setting)
    members = [] if experiment is None else runs.get(experiment.cell, ())
    return [value for run in members if run.counts and (value := run.last_error) is not None]


def started(name: str) -> list[RunRecord]:
    """The runs whose folder is called `name` and a seed, in the order of their seeds."""
    return [read_run(path) for path in sorted(RUNS.glob(f"{name}seed*"))]


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
