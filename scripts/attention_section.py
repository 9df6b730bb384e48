"""Tables of docs/results.md and docs/attention.md: the attention of trained networks."""

from collections.abc import Iterable, Sequence

from scalednl.lab.records.attention import AttentionRecord
from scalednl.lab.records.runs import find_runs, read_run
from scalednl.lab.report.attention import find_attention
from scalednl.lab.report.formatting import data_words, network_words, percent, score_words, spread
from scalednl.lab.report.markdown import markdown_table
from scalednl.lab.stats import summarise
from scripts.result_tables import AGAIN, RUNS

JUDGED = 0
"""The block that claims about maps are judged on, the one of Figure 1"""


def attention_section() -> str:
    """Two tables for every data set and network: scores of the first block, ablation errors."""
    found, _ = find_attention(find_runs([RUNS]))
    places: dict[tuple[str, str], list[AttentionRecord]] = {}
    for one in found:
        places.setdefault((str(one.record.data), one.record.model), []).append(one.record)
    parts = [
        f"### {data_words(data)}, {network_words(model)}\n\n{attention_tables(records)}"
        for (data, model), records in places.items()
    ]
    parts += [text] if (text := trained_again()) else []
    return "\n\n".join(parts) or "No attention has been recorded yet."


def trained_again() -> str:
    """Which records are those of a second training, in a sentence per run."""
    runs = find_runs([AGAIN]) if AGAIN.is_dir() else []
    errors = {run.name: percent(read_run(RUNS / run.name).last_error) for run in runs}
    return "\n".join(
        f"- {run.name} was trained again for its attention, because its weights were lost: "
        f"{percent(run.last_error)} % error instead of {errors[run.name]} %. Its error in every "
        "other table is that of the first run."
        for run in runs
    )


def attention_tables(records: Sequence[AttentionRecord]) -> str:
    """Scores of the first block and ablation errors, a column per attention."""
    if not records:
        return "No attention has been recorded yet."
    groups = grouped(records)
    names = [f"{name} (n={len(members)})" for name, members in groups.items()]
    tested = max(one.ablations.images for one in records if one.ablations)
    return "\n\n".join(
        [
            f"First block, {records[0].images_scored} test images, mean ± standard deviation over "
            "seeds; in brackets the same networks before training:",
            _table("score", names, score_rows(groups)),
            f"Test error in percent, {tested:,} images, with the maps of all blocks replaced:",
            _table("maps", names, ablation_rows(groups)),
        ]
    )


def _table(first: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    words = [[score_words(name), *cells] for name, *cells in rows]
    return markdown_table([first, *names], words)


def grouped(records: Sequence[AttentionRecord]) -> dict[str, list[AttentionRecord]]:
    """Records by attention, softmax first, in the order of their seeds."""
    groups: dict[str, list[AttentionRecord]] = {}
    for record in sorted(records, key=lambda record: record.seed or 0):
        groups.setdefault(record.blocks[0].attention, []).append(record)
    return {name: groups[name] for name in sorted(groups, reverse=True)}


def score_rows(groups: dict[str, list[AttentionRecord]]) -> list[list[str]]:
    """A row for every score of the judged block: its name, then a cell per attention."""
    runs = [record for found in groups.values() for record in found]
    names = _names(record.blocks[JUDGED].scores for record in runs)
    return [[name, *(_score(found, name) for found in groups.values())] for name in names]


def ablation_rows(groups: dict[str, list[AttentionRecord]]) -> list[list[str]]:
    """A row for everything that maps were replaced with: the test error of every attention."""
    errors = {
        name: [record.ablations.error_pct for record in found if record.ablations]
        for name, found in groups.items()
    }
    return [
        [name, *(_known_spread([one.get(name) for one in errors[group]]) for group in groups)]
        for name in _names(one for found in errors.values() for one in found)
    ]


def _names(found: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for names in found for name in names))


def _score(found: Sequence[AttentionRecord], score: str) -> str:
    blocks = [record.blocks[JUDGED] for record in found]
    if any(score not in block.scores for block in blocks):
        return ""
    trained = [block.scores[score].mean for block in blocks]
    before = [block.untrained[score].mean for block in blocks]
    digits = 3 if max(map(abs, trained + before)) < 10 else 1
    return f"{_known_spread(trained, digits)} ({summarise(before).mean:.{digits}f})"


def _known_spread(values: Sequence[float | None], digits: int = 2) -> str:
    known = [value for value in values if value is not None]
    return spread(summarise(known), digits) if known else ""
