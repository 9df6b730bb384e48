"""Records of finished runs to everything that shows them.

python -m scripts.results collect RUNS   copies the records of finished runs into results/lite/runs
python -m scripts.results again RUNS     the same into results/lite/again, for runs trained a second
                                         time; the first ones get their attention if they had none
python -m scripts.results tiny RUNS      the same into results/tiny, for two stages on Tiny-ImageNet
python -m scripts.results generated RUNS the same into results/generated, for `pairs` and `recall`
python -m scripts.results                writes the report page, docs/results.md, the charts, and
                                         the generated parts of the README and of other pages
"""

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.capacity_records import FOLDER as CAPACITY
from benchmarks.records import HalfPrecisionRecord
from scalednl.files import write_text
from scalednl.lab.records.attention import read_attention, without_pictures, write_attention
from scalednl.lab.records.run import RunFolder
from scalednl.lab.records.runs import read_run
from scalednl.lab.report.content import Content, build_content
from scalednl.lab.report.verdict_chart import verdict_figures
from scalednl.lab.report.verdicts import Verdict
from scalednl.lab.report.write import write_report
from scripts.attention_section import attention_section, attention_tables
from scripts.capacity_section import (
    FIGURE,
    capacity_figure,
    capacity_section,
    heads_section,
    held_section,
)
from scripts.comparison_tables import blocks_table, softmax_table
from scripts.cost_section import (
    busy_records,
    charts,
    memory_section,
    newest,
    page_section,
    readme_section,
)
from scripts.generated import GENERATED, attention_records, errors_table
from scripts.half_precision_tables import half_precision_parts
from scripts.other_sizes import sizes_table
from scripts.paper_tables import paper_parts
from scripts.parts import with_parts
from scripts.result_tables import (
    AGAIN,
    LITE,
    RUNS,
    SCALE,
    decided_list,
    error_tables,
    first_table,
    lines_table,
    runs_table,
    verdict_tables,
)
from scripts.two_stages import TINY, two_stages_table
from scripts.weights import RECORDS, weights_table

ROOT = Path(__file__).parents[1]
CLAIMS = LITE / "claims.svg"
BENCH = ROOT / "benchmarks" / "results"
PAGES = {
    "results": ROOT / "docs" / "results.md",
    "capacity": ROOT / "docs" / "capacity.md",
    "sizes": ROOT / "docs" / "masks-and-keys.md",
    "training": ROOT / "docs" / "training.md",
    "readme": ROOT / "README.md",
    "weights": ROOT / "docs" / "weights.md",
    "block": ROOT / "docs" / "the-block.md",
    "half": ROOT / "docs" / "half-precision.md",
    "paper": ROOT / "docs" / "paper.md",
    "data": ROOT / "docs" / "data.md",
    "attention": ROOT / "docs" / "attention.md",
}
TARGETS = {"collect": RUNS, "again": AGAIN, "tiny": TINY, "generated": GENERATED}
"""Where records are copied to"""


def main(arguments: Sequence[str]) -> None:
    """Collect, or write."""
    if len(arguments) == 2 and arguments[0] in TARGETS:
        target = TARGETS[arguments[0]]
        count = collect(Path(arguments[1]), target)
        print(f"{count} runs collected into {target.relative_to(ROOT)}")
        if target == AGAIN:
            print(f"attention of {lend_attention(AGAIN, RUNS)} runs trained again")
    elif arguments:
        sys.exit(__doc__)
    write_report([RUNS], LITE / "report.html", [BENCH])
    for path, figure in figures().items():
        write_text(path, figure)
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
    """The scores of a run's attention, without its pictures and vectors, if they are new."""
    record, target = read_attention(RunFolder(path).attention), folder / "attention"
    if record is not None and read_attention(target) != (record := without_pictures(record)):
        target.mkdir(exist_ok=True)
        write_attention(target, record)


def lend_attention(again: Path, runs: Path) -> int:
    """Give runs without a record of attention that of the same training, done a second time."""
    count = 0
    for path in sorted(again.iterdir()):
        record, target = read_attention(path / "attention"), runs / path.name / "attention"
        if record is not None and target.parent.is_dir() and not target.exists():
            target.mkdir()
            write_attention(target, record)
            count += 1
    return count


def parts(page: str) -> dict[str, str]:
    """The generated parts of a page."""
    return MAKERS[page]()


def _result_parts() -> dict[str, str]:
    verdicts = _verdicts(build_content([RUNS], [BENCH]))
    return {
        "decided": decided_list(verdicts),
        "lines": lines_table(),
        "verdicts": verdict_tables(verdicts),
        "tables": error_tables(),
        "runs": runs_table(),
        "softmax": softmax_table(),
        "blocks": blocks_table(),
        "attention": attention_section(),
    }


def _capacity_parts() -> dict[str, str]:
    return {"held": held_section(), "capacity": capacity_section(), "heads": heads_section()}


MAKERS: dict[str, Callable[[], dict[str, str]]] = {
    "results": _result_parts,
    "capacity": _capacity_parts,
    "sizes": lambda: {"sizes": sizes_table()},
    "training": lambda: {"stages": two_stages_table()},
    "readme": lambda: {"results": first_table(), "cost": readme_section()},
    "weights": lambda: {"weights": weights_table()},
    "block": lambda: {"cost": page_section(), "memory": memory_section()},
    "half": lambda: half_precision_parts(newest(HalfPrecisionRecord)),
    "paper": paper_parts,
    "data": lambda: {data: errors_table(data) for data in ("pairs", "recall")},
    "attention": lambda: {"pairs": attention_tables(attention_records("pairs"))},
}
"""What makes the parts of each page"""


def figures() -> dict[Path, str]:
    """The figures of docs/results.md, by their files."""
    claims, capacity = verdict_figures(_verdicts(build_content([RUNS]))), capacity_figure()
    found = [(CLAIMS, one.chart) for one in claims]
    return dict(found + ([(CAPACITY / FIGURE, capacity)] if capacity else []))


def _verdicts(content: Content) -> list[Verdict]:
    return [item for item in content.verdicts if item.scale == SCALE.name]


if __name__ == "__main__":
    main(sys.argv[1:])
