"""The part of docs/results.md about the attention of trained networks, from their records."""

from collections.abc import Sequence

from scalednl.lab.records.attention import AttentionRecord
from scalednl.lab.records.runs import find_runs, read_run
from scalednl.lab.report.attention import find_attention
from scalednl.lab.report.formatting import data_words, network_words, percent, score_words
from scalednl.lab.report.markdown import markdown_table
from scripts.attention_tables import ablation_rows, grouped, score_rows
from scripts.result_tables import AGAIN, RUNS

JUDGED = 0
"""The block that claims about maps are judged on, the one of Figure 1"""


def attention_section() -> str:
    """Two tables for every data set and network: scores of the first block, ablation errors."""
    found, _ = find_attention(find_runs([RUNS]))
    places: dict[tuple[str, str], list[AttentionRecord]] = {}
    for one in found:
        places.setdefault((str(one.record.data), one.record.model), []).append(one.record)
    parts = [_place(data, model, records) for (data, model), records in places.items()]
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


def _place(data: str, model: str, records: Sequence[AttentionRecord]) -> str:
    groups = grouped(records)
    names = [f"{name} (n={len(members)})" for name, members in groups.items()]
    tested = max(one.ablations.images for one in records if one.ablations)
    return "\n\n".join(
        [
            f"### {data_words(data)}, {network_words(model)}",
            f"First block, {records[0].images_scored} test images, mean ± standard deviation over "
            "seeds; in brackets the same networks before training:",
            _table("score", names, score_rows(groups, JUDGED)),
            f"Test error in percent, {tested:,} images, with the maps of all blocks replaced:",
            _table("maps", names, ablation_rows(groups)),
        ]
    )


def _table(first: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    words = [[score_words(name), *cells] for name, *cells in rows]
    return markdown_table([first, *names], words)
