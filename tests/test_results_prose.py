"""What pages say of trainings on real images is what the records say."""

import json
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
from scripts.comparison_tables import softmax_table
from scripts.result_tables import AGAIN, LITE, RUNS, SCALE
from tests.recorded import RECORDED, WITH_ATTENTION, error_of, words_of

LINE_8 = "cifar100-preresnet32-{}-short-norm_init-0.0-allx12-wd0.0001-"
LATER = re.compile("-center-keys-|^cifar100-preresnet20-|^cifar10-.*-(norm_init|scale)-")
"""Runs of lines 7 and 9 to 11"""
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
    small = [
        [
            last_errors(started(f"{data}-preresnet20-{name}-short-10000x10-"))
            for name in ("softmax", "scaled")
        ]
        for data in ("cifar10", "cifar100")
    ]
    on10, on100 = (interval(softmax, scaled) for softmax, scaled in small)
    assert f"the difference is {on10} on CIFAR-10 and {on100} on CIFAR-100. Pooled" in page
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


def test_what_the_page_says_of_line_11() -> None:
    """What a start of batch norm at 0 instead of 1 changes, and what is left between blocks."""
    page, errors = words_of("results"), {}
    for kind in ("softmax", "scaled"):
        for start in ("", "norm_init-0.0-"):
            name = f"cifar10-preresnet20-{kind}-short-{start}10000x10-"
            errors[kind, start] = last_errors(started(name))
            assert len(errors[kind, start]) == 6
    softmax, scaled = (
        interval(errors[kind, ""], errors[kind, "norm_init-0.0-"], unit)
        for kind, unit in (("softmax", " points better"), ("scaled", ""))
    )
    assert f"softmax blocks are {softmax} and scaled blocks {scaled}, and then" in page
    worse, better = (errors[kind, "norm_init-0.0-"] for kind in ("scaled", "softmax"))
    assert f"scaled blocks ({interval(worse, better, ' points')} worse) and no blocks" in page


def test_what_the_page_says_of_verdicts() -> None:
    """Pooled differences, p and the level, and how many claims have which answer."""
    report = json.loads((LITE / "report.json").read_text(encoding="utf-8"))
    by_name = {item["claim"]: item for item in report["verdicts"]}
    main, scaled, softmax = (
        by_name[name]
        for name in ("scaled-beats-softmax", "scaled-blocks-help", "softmax-blocks-help")
    )
    page = words_of("results")

    def words(item: dict[str, float], sign: int = 1, unit: str = "") -> str:
        low, high = sorted(sign * item[end] for end in ("low", "high"))
        return f"{sign * item['mean']:.2f}{unit} [{low:.2f}, {high:.2f}]"

    said = (
        f"Pooled that is {words(main)}, with p = {main['p']:.2g}; corrected for 12 main claims p "
    )
    said += f"is {main['p_corrected']:.2g}, the declared level is {main['level']:g}, and so the "
    assert f"{said}verdict is *{main['answer']}*" in page
    said = f"scaled blocks of 4 heads by {words(scaled, -1, ' points')}, *{scaled['answer']}*, and "
    assert f"{said}softmax blocks by {words(softmax, -1)})" in page
    images, cost = (
        Counter(
            item["answer"] for item in report["verdicts"] if (item["quantity"] == "cost") == is_cost
        )
        for is_cost in (False, True)
    )
    said = f"Of {images.total()} claims {images['holds']} hold, {images['does not hold']} do not "
    said += f"hold, {images['no difference that matters']} make no difference that matters, and "
    assert f"{said}{images['open']} are open." in page
    assert f"claims about cost {cost['holds']} hold and {cost['open']} are open" in page
    assert cost.total() == cost["holds"] + cost["open"]


def test_what_the_page_says_of_all_comparisons() -> None:
    """How many intervals of softmax - scaled lie above 0, and that none lies below."""
    bounds = re.findall(r"\[([+−][\d.]+), ([+−][\d.]+)\]", softmax_table())
    low, high = ([float(one[end].replace("−", "-")) for one in bounds] for end in (0, 1))
    above = sum(value > 0 for value in low)
    assert (above, len(bounds)) == (4, 10)
    assert "four of ten comparisons have an interval above 0" in words_of("results")
    assert min(high) > 0, "change docs/results.md"


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


def test_what_the_page_says_of_attention_in_line_9() -> None:
    """Shares of long keys, and what replaced maps cost, over six networks of each kind."""
    page, shares = words_of("results"), {}
    lost: dict[tuple[str, str], list[float]] = {}
    for kind in ("softmax", "scaled"):
        start = f"cifar100-preresnet20-{kind}-short-10000x10-"
        records = [read_attention(p / "attention") for p in WITH_ATTENTION if start in p.name]
        known = [record for record in records if record is not None and record.ablations]
        assert len(known) == 6
        shares[kind] = [record.blocks[0].scores["long_keys_share"].mean for record in known]
        shares["none"] = [record.blocks[0].untrained["long_keys_share"].mean for record in known]
        for name in ("column_mean", "uniform"):
            errors = [record.ablations.error_pct for record in known if record.ablations]
            lost[kind, name] = [one[name] - one["unchanged"] for one in errors]
    percent = {kind: f"{100 * fmean(values):.0f} %" for kind, values in shares.items()}
    assert f"the longest 1 % of keys have {percent['none']} of what differs" in page
    assert (
        f"it stays so ({percent['scaled']}), with softmax it becomes {percent['softmax']}" in page
    )
    assert f"at least {100 * min(shares['softmax']):.0f} % in every seed" in page
    said = f"{percent['softmax']} of what differs between keys with softmax and {percent['scaled']}"
    assert f"on CIFAR-100 the longest 1 % of keys have {said} with scaled" in page
    (low, high), one_row = (
        (min(values), max(values))
        for values in (lost["softmax", "uniform"], lost["softmax", "column_mean"])
    )
    assert f"at most {one_row[1]:.1f} points, uniform maps cost it {low:.1f} to {high:.1f}:" in page
    words = [
        f"{min(lost['scaled', name]):.1f} to {max(lost['scaled', name]):.1f}"
        for name in ("column_mean", "uniform")
    ]
    assert f"loses {words[0]} points with one row, {words[1]} with uniform maps" in page


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
    machines = {path.name: str(read_run(path).origin.machine) for path in RECORDED}
    found = Counter(machines.values())
    usual, newer = (
        f"AMD EPYC (family {kind}, stepping 1)" for kind in ("25, model 17", "26, model 2")
    )
    nameless = sum("family" not in machine for machine in machines.values())
    assert found[usual] + found[newer] + nameless == len(RECORDED)
    later = [name for name in machines if LATER.search(name)]
    assert {name for name, machine in machines.items() if machine == newer} == set(later)
    said = f"{found[usual]} have one and the same, the {len(later)} of lines 7 and 9 to 11 a newer "
    said += f"one, {nameless} older"
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
