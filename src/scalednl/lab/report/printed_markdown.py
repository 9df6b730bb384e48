"""The printed numbers' noise as parts of report.md and docs/paper.md."""

from typing import Any

from scalednl.lab.paper.tables import DATA
from scalednl.lab.report.formatting import data_words, minus
from scalednl.lab.report.markdown_table import markdown_table


def printed_parts(printed: dict[str, Any]) -> list[str]:
    """Noise, differences, position, power and contradictions, one part each."""
    return [
        noise_line(printed),
        contrast_table(printed),
        "± is 2 x noise; bold differences are larger than that, the others are not distinguishable "
        "from the placebo.",
        position_table(printed["position"]),
        power_table(printed["power"]),
        contradiction_list(printed["contradictions"]),
    ]


def contradiction_list(items: list[dict[str, Any]]) -> str:
    """What does not agree in the paper."""
    return "\n".join(f"- {item['subject']}: {item['details']}" for item in items)


def noise_line(printed: dict[str, Any]) -> str:
    """The noise and how many differences exceed it, in two sentences."""
    parts = []
    for name, words in (("cifar", "CIFAR"), ("tiny-imagenet", "Tiny-ImageNet")):
        noise = printed["noise"][name]
        low, high = noise["difference_interval"]
        parts.append(
            f"{noise['difference']:.2f} points on {words} ({noise['seeds']} seeds, "
            f"{noise['placebos']} placebo{'s' * (noise['placebos'] > 1)}, 95 % interval "
            f"{low:.2f} to {high:.2f})"
        )
    counts = printed["counts"]
    return (
        f"Noise of a difference of two printed means: {' and '.join(parts)}. Of "
        f"{counts['claimed']} differences claimed to be above 0, {counts['larger than 2 x noise']} "
        f"are larger than 2 x noise and {counts['not distinguishable from the placebo']} are not "
        "distinguishable from the placebo."
    )


def contrast_table(printed: dict[str, Any]) -> str:
    """Every difference with 2 x noise, the placebos first."""
    names = dict.fromkeys(item["name"] for item in printed["placebos"])
    rows = []
    for name in names:
        at = {p["data"]: minus(p["difference"]) for p in printed["placebos"] if p["name"] == name}
        rows.append(["placebo", name, *(at.get(data, "") for data in DATA)])
    for row in printed["contrasts"]:
        cells = [_contrast(row["cells"].get(data), printed["multiple"]) for data in DATA]
        note = " (claimed comparable)" if row["claimed"] == "comparable" else ""
        rows.append([row["table"].removeprefix("table")[0], row["name"] + note, *cells])
    return markdown_table(["table", "difference", *map(data_words, DATA)], rows)


def _contrast(cell: dict[str, Any] | None, multiple: float) -> str:
    if cell is None:
        return ""
    text = f"{minus(cell['difference'])} ± {multiple * cell['noise']:.2f}"
    return f"**{text}**" if cell["answer"].startswith("larger") else text


def position_table(items: list[dict[str, Any]]) -> str:
    """The printed gains, split into the encoding's part and the rest."""
    rows = [
        [
            *(data_words(item["data"]), item["attention"], minus(item["gain"]["points"], 3)),
            f"{minus(item['position']['points'], 3)} ({100 * item['share']:.0f} %)",
            minus(item["beyond"]["points"], 3),
        ]
        for item in items
    ]
    head = ["data", "blocks, 1 head", "gain", "of it the encoding", "beyond the encoding"]
    return markdown_table(head, rows)


def power_table(items: list[dict[str, Any]]) -> str:
    """The power of the printed design on the gaps between softmax and scaled blocks."""
    rows = [
        [
            *(data_words(item["data"]), str(item["heads"]), minus(item["gap"])),
            *(str(item["run_sd"]), f"{100 * item['power']:.0f} %", str(item["needed"])),
        ]
        for item in items
    ]
    seeds = items[0]["printed_seeds"]
    head = ["data", "heads", "printed gap", "assumed sd", f"power with {seeds} seeds"]
    return markdown_table([*head, "seeds for 80 %"], rows)
