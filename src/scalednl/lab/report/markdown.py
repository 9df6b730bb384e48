"""report.md: the tables alone, for an issue, a wiki or a terminal."""

import re
from collections.abc import Iterator, Sequence

from scalednl.lab.console import counted, duration
from scalednl.lab.paper.printed_contrasts import DesignPower, PositionShare, PrintedContrast
from scalednl.lab.paper.provenance import Contradiction
from scalednl.lab.paper.tables import DATA
from scalednl.lab.report.content import Content, Training
from scalednl.lab.report.formatting import (
    bound,
    data_words,
    difference,
    interval,
    limited,
    minus,
    needed,
    network_words,
    place,
    plain,
    printed,
)
from scalednl.lab.report.paper_tables import PaperTable
from scalednl.lab.report.printed_numbers import PrintedNumbers
from scalednl.lab.report.story import COUNT_WORDS, GENERATED, asked, warning
from scalednl.lab.report.verdicts import Verdict


def render_markdown(content: Content) -> str:
    """The content's tables."""
    return "\n\n".join(_parts(content)) + "\n"


def _parts(content: Content) -> Iterator[str]:
    counts, made = content.counts, content.origin
    states = ", ".join(f"{count} {name}" for name, count in counts.states.items())
    yield "# scalednl report"
    yield (
        f"{counted(counts.runs, 'run')} ({states}), {duration(counts.seconds)} of training. "
        f"Made {made.date[:10]} by scalednl {made.scalednl}."
    )
    if text := warning(content):
        yield f"**Generated images only.** {text}"
    if text := asked(content):
        found = ", ".join(f"{n} {COUNT_WORDS[name]}" for name, n in counts.verdicts.items())
        yield f"{text} {found}."
    if content.others:
        yield from ("## Trainings", _others(content.others))
    if content.verdicts:
        yield from ("## The paper's claims", _verdicts(content.verdicts))
    yield "## What the printed numbers can carry"
    yield from printed_parts(content.printed)
    for table in content.tables:
        if table.has_ours:
            yield f"## {table.title}{table.mark}"
            yield f"{table.caption} {table.noise}".strip()
            yield _paper_table(table)
            yield from (group.part for group in table.groups if group.part)
            yield from (f"{mark} {reason}" for mark, reason in table.notes.items())
    problems = [[run.name, run.problem] for run in content.runs if run.problem]
    if problems:
        yield from ("## Runs left out", markdown_table(["run", "reason"], problems))


def _others(rows: Sequence[Training]) -> str:
    lines = [
        [
            *(data_words(row.data), network_words(row.network), row.blocks, row.trained),
            plain(row.ours),
            difference(row.ours.difference) if row.ours.difference else "",
            "" if row.seconds is None else duration(row.seconds),
        ]
        for row in rows
    ]
    training = ["data", "network", "blocks", "trained for"]
    head = [*training, "test error, %", "difference from softmax", "time"]
    return markdown_table(head, lines)


def _verdicts(items: Sequence[Verdict]) -> str:
    lines = [
        [
            *(item.says, item.scale, place(item)),
            "" if item.mean is None else bound(item.mean, item.quantity),
            *(interval(item, item.quantity), item.seeds),
            item.answer + (f" ({GENERATED})" if item.is_generated else ""),
            ". ".join(part for part in (item.why, needed(item)) if part),
        ]
        for item in items
    ]
    head = ["claim", "scale", "data, network", "difference", "95 % interval", "n", "verdict", "why"]
    return markdown_table(head, lines)


def _paper_table(table: PaperTable) -> str:
    head = ["scale", "data", "network", "blocks"]
    for column in table.columns:
        head += [f"{column}, paper"] if table.has_printed else []
        head += [f"{column}, ours"]
    lines = []
    for group in table.groups:
        for row in group.rows:
            line = [group.scale, data_words(row.data), network_words(row.network), row.row]
            for cell in row.cells.values():
                if table.has_printed:
                    has = cell is not None and cell.printed is not None
                    line.append(printed(cell.printed) + cell.mark if cell and has else "")
                line.append(plain(cell.ours) if cell else "")
            lines.append(line)
    return markdown_table(head, lines)


def printed_parts(numbers: PrintedNumbers) -> list[str]:
    """Noise, differences, position, power and contradictions, one part each."""
    return [
        noise_line(numbers),
        contrast_table(numbers),
        "± is 2 x noise; bold differences are larger than that, the others are not distinguishable "
        "from the placebo.",
        position_table(numbers.position),
        power_table(numbers.power),
        contradiction_list(numbers.contradictions),
    ]


def contradiction_list(items: Sequence[Contradiction]) -> str:
    """Where the paper does not agree with itself."""
    return "\n".join(f"- {item.subject}: {item.details}" for item in items)


def noise_line(numbers: PrintedNumbers) -> str:
    """The noise and how many differences exceed it, in three sentences."""
    parts = []
    for name, words in (("cifar", "CIFAR"), ("tiny-imagenet", "Tiny-ImageNet")):
        noise = numbers.noise[name]
        low, high = noise.difference_interval
        parts.append(
            f"{noise.difference:.2f} points on {words} ({noise.seeds} seeds, "
            f"{counted(noise.placebos, 'placebo')}, 95 % interval "
            f"{low:.2f} to {high:.2f})"
        )
    counts = numbers.counts
    return (
        f"Noise of a difference of two printed means: {' and '.join(parts)}. Of "
        f"{counts.claimed} differences claimed to be above 0, {counts.larger} "
        f"are larger than 2 x noise and {counts.same} are not distinguishable from the placebo. "
        f"Of the larger ones, {counts.larger_but_p_above_5_percent} have p > 0.05 once the small "
        "number of placebos is counted (Student's t)."
    )


def contrast_table(numbers: PrintedNumbers) -> str:
    """Every difference with 2 x noise, the placebos first."""
    rows = []
    for name in dict.fromkeys(item.name for item in numbers.placebos):
        at = {p.data: minus(p.difference) for p in numbers.placebos if p.name == name}
        rows.append(["placebo", name, *(at.get(data, "") for data in DATA)])
    for row in numbers.contrasts:
        cells = [_contrast(row.cells.get(data), numbers.multiple) for data in DATA]
        note = " (claimed comparable)" if row.claimed == "comparable" else ""
        rows.append([row.table.removeprefix("table")[0], row.name + note, *cells])
    return markdown_table(["table", "difference", *map(data_words, DATA)], rows)


def _contrast(cell: PrintedContrast | None, multiple: float) -> str:
    if cell is None:
        return ""
    text = f"{minus(cell.difference)} ± {multiple * cell.noise:.2f}"
    return f"**{text}**" if cell.is_larger else text


def position_table(items: Sequence[PositionShare]) -> str:
    """The printed gains, split into the encoding's part and the rest."""
    rows = [
        [
            *(data_words(item.data), item.attention, minus(item.gain.difference, 3)),
            f"{minus(item.position.difference, 3)} ({100 * item.share:.0f} %)",
            minus(item.beyond.difference, 3),
        ]
        for item in items
    ]
    head = ["data", "blocks, 1 head", "gain", "of it the encoding", "beyond the encoding"]
    return markdown_table(head, rows)


def power_table(items: Sequence[DesignPower]) -> str:
    """The power of the printed design on the gaps between softmax and scaled blocks."""
    rows = [
        [
            *(data_words(item.data), str(item.heads), minus(item.gap)),
            *(str(item.run_sd), f"{100 * item.power:.0f} %", str(item.needed)),
        ]
        for item in items
    ]
    power = f"power with {items[0].printed_seeds} seeds"
    head = ["data", "heads", "printed gap", "assumed sd", power, "seeds for 80 %"]
    return markdown_table(head, rows)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows below a head, with every cell escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_escape(cell) for cell in line)} |" for line in lines)


def _escape(text: str) -> str:
    """Text that stays text: no column of its own, no tag, no entity."""
    text = limited(" ".join(text.split())).replace("\\", "\\\\").replace("|", "\\|")
    # A sign that begins no tag or entity stays as it is, for those who read the file itself.
    text = re.sub(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)", r"\\\g<0>", text)
    # A link needs its "](" and code its quotes.
    return text.replace("](", "]\\(").replace("`", "\\`")
