"""Records of finished runs to everything that shows them.

python -m scripts.results collect RUNS   copies the records of finished runs into results/lite/runs
python -m scripts.results                writes the report page, docs/results.md, parts of the
                                         README, and docs/the-block.md's costs with their charts
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.capacity_records import FOLDER as CAPACITY
from scalednl.files import write_text
from scalednl.lab.paper.answers import ANSWERS, OPEN
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.evidence import evidence_lines
from scalednl.lab.paper.grids import paper_setting
from scalednl.lab.paper.scales import SCALES, PaperSetting
from scalednl.lab.records.attention import read_attention, without_pictures, write_attention
from scalednl.lab.records.run import RunFolder
from scalednl.lab.records.runs import Cells, by_cell, find_runs, read_run
from scalednl.lab.report.aggregate import describe_block
from scalednl.lab.report.content import build_content
from scalednl.lab.report.formatting import (
    bound,
    data_words,
    interval,
    needed,
    network_words,
    place,
    printed,
)
from scalednl.lab.report.markdown import markdown_table
from scalednl.lab.report.verdicts import Verdict
from scalednl.lab.report.write import write_report
from scripts.capacity_section import FIGURE, capacity_figure, capacity_section
from scripts.cost_section import busy_records, charts, memory_section, page_section, readme_section
from scripts.other_sizes import mean_words, sizes_table
from scripts.parts import with_parts
from scripts.weights import weights_table

ROOT = Path(__file__).parents[1]
LITE = ROOT / "results" / "lite"
RUNS = LITE / "runs"
BENCH = ROOT / "benchmarks" / "results"
PAGES = {
    "docs": ROOT / "docs" / "results.md",
    "readme": ROOT / "README.md",
    "weights": ROOT / "docs" / "weights.md",
    "block": ROOT / "docs" / "the-block.md",
}
RECORDS = ("config.json", "epochs.jsonl", "result.json", "predictions.npy")
SCALE = SCALES["lite"]


def main(arguments: Sequence[str]) -> None:
    """Collect, or write."""
    if arguments[:1] == ["collect"] and len(arguments) == 2:
        print(f"{collect(Path(arguments[1]), RUNS)} runs collected into {RUNS.relative_to(ROOT)}")
    elif arguments:
        sys.exit(__doc__)
    write_report([RUNS], LITE / "report.html", [BENCH])
    if figure := capacity_figure():
        write_text(CAPACITY / FIGURE, figure)
    for sentence in busy_records():
        print(f"busy machine: {sentence}", file=sys.stderr)
    for path, chart in charts().items():
        write_text(path, chart)
    for name, page in PAGES.items():
        write_text(page, with_parts(page.read_text(encoding="utf-8"), parts(name)))


def collect(source: Path, target: Path) -> int:
    """Copy what a report needs of every run that has ended; nothing that only training needs."""
    count = 0
    for path in sorted(source.iterdir()):
        if not read_run(path).has_ended:
            continue
        folder = target / path.name
        folder.mkdir(parents=True, exist_ok=True)
        for name in RECORDS:
            if (path / name).is_file():
                shutil.copyfile(path / name, folder / name)
        _copy_scores(path, folder)
        count += 1
    return count


def _copy_scores(path: Path, folder: Path) -> None:
    """The scores of a run's attention, without its pictures and vectors."""
    record = read_attention(RunFolder(path).attention)
    if record is not None:
        (folder / "attention").mkdir(exist_ok=True)
        write_attention(folder / "attention", without_pictures(record))


def parts(page: str) -> dict[str, str]:
    """The generated parts of a page."""
    if page == "readme":
        return {"results": first_table(), "cost": readme_section()}
    if page == "block":
        return {"cost": page_section(), "memory": memory_section()}
    if page == "weights":
        return {"weights": weights_table()}
    content = build_content([RUNS], [BENCH])
    verdicts = [item for item in content.verdicts if item.scale == SCALE.name]
    return {
        "lines": lines_table(),
        "verdicts": verdict_table(verdicts),
        "tables": error_tables(),
        "sizes": sizes_table(),
        "capacity": capacity_section(),
    }


def _runs() -> Cells:
    return by_cell(find_runs([RUNS]) if RUNS.is_dir() else [])


def _error(setting: PaperSetting, runs: Cells) -> str:
    """Mean ± standard deviation (n), or nothing."""
    experiment = SCALE.experiment(setting)
    members = [] if experiment is None else runs.get(experiment.cell, ())
    errors = [value for run in members if run.counts and (value := run.last_error) is not None]
    return mean_words(errors)


def first_table() -> str:
    """The main comparison, for the README."""
    runs = _runs()
    rows = []
    for words, options in (
        ("no blocks", {"attention": "plain"}),
        ("no blocks, position encoding", {"attention": "plain", "position": True}),
        ("3 softmax blocks, 4 heads", {"attention": "softmax", "heads": 4}),
        ("3 scaled blocks, 4 heads", {"attention": "scaled", "heads": 4}),
    ):
        cells = [_error(paper_setting(data, **options), runs) for data in ("cifar10", "cifar100")]
        rows.append([words, *cells])
    return markdown_table(["PreResNet-20 with", "CIFAR-10 error, %", "CIFAR-100 error, %"], rows)


def lines_table() -> str:
    """How far the declared plan is."""
    runs = _runs()
    rows = []
    for line in evidence_lines():
        trainings = [experiment for _, experiment in line.artefact.trainings(SCALE)]
        ended = [sum(run.has_ended for run in runs.get(one.cell, ())) for one in trainings]
        names = "; ".join(
            f"{data_words(one.data)}, {network_words(one.model)}: {describe_block(one)}"
            for one in trainings
        )
        done = f"{sum(ended)} of {line.seeds * len(trainings)}"
        rows.append([str(line.number), line.decides, names, done])
    return markdown_table(["line", "decides", "trainings", "runs"], rows)


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """A line per claim: the main ones first."""
    if not verdicts:
        return "No run has finished yet."
    rows = [
        [
            item.says + ("" if item.is_primary else " (descriptive)"),
            f"**{item.answer}**",
            "" if item.mean is None else bound(item.mean, item.quantity),
            interval(item, item.quantity),
            str(item.n or ""),
            place(item),
            ". ".join(text for text in (item.why, needed(item)) if text),
        ]
        for item in sorted(verdicts, key=lambda item: not item.is_primary)
    ]
    counts = ", ".join(
        f"{sum(item.answer == name for item in verdicts)} *{name}*" for name in ANSWERS
    )
    head = ["claim", "verdict", "difference", "95 % interval", "n", "data, network", "why"]
    parts = [f"{len(verdicts)} claims: {counts}.", _decided(verdicts), markdown_table(head, rows)]
    return "\n\n".join(part for part in parts if part)


def _decided(verdicts: Sequence[Verdict]) -> str:
    """A line per claim that is not open."""
    return "\n".join(
        f"- **{item.answer}**: {item.says}: {bound(item.mean, item.quantity)} "
        f"{interval(item, item.quantity)}, n = {item.n}"
        + (" (main claim)" if item.is_primary else "")
        for item in sorted(verdicts, key=lambda item: not item.is_primary)
        if item.answer != OPEN and item.mean is not None
    )


def error_tables() -> str:
    """Every table that has runs: the printed value beside ours."""
    runs, found = _runs(), []
    for artefact in artefacts().values():
        rows: dict[tuple[str, str, str], dict[str, str]] = {}
        for cell in artefact.cells:
            ours = _error(cell.setting, runs)
            if ours:
                experiment = SCALE.experiment(cell.setting)
                assert experiment is not None
                key = experiment.data, network_words(experiment.model), cell.row
                value = "" if cell.printed is None else f" [{printed(cell.printed)}]"
                rows.setdefault(key, {})[cell.column] = f"{ours}{value}"
        if rows:
            head = ["data", "network", "blocks", *artefact.columns]
            lines = [
                [*key, *(cells.get(column, "") for column in artefact.columns)]
                for key, cells in rows.items()
            ]
            found.append(f"### {artefact.title}\n\n{markdown_table(head, lines)}")
    return "\n\n".join(found) or "No run has finished yet."


if __name__ == "__main__":
    main(sys.argv[1:])
