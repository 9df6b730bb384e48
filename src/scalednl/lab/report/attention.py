"""Records of attention on the page: tables of scores, pictures of maps, and the explorer."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scalednl.errors import CommandError
from scalednl.lab.records.attention import (
    PNG,
    Ablations,
    AttentionRecord,
    BlockRecord,
    ExplorerImage,
    UntrainedStart,
    read_attention,
)
from scalednl.lab.records.origin import Origin
from scalednl.lab.records.runs import RunRecord
from scalednl.lab.records.typed_json import read_bytes
from scalednl.lab.report.formatting import SCORES
from scalednl.lab.stats import Summary

COLUMNS = 4
"""Runs beside each other in a table of scores, so that it fits a window of 1440 pixels"""
EXPLORER_BYTES = 2_250_000
"""Of vectors that the explorer may add to the page"""
PICTURES = 8
LARGEST_PICTURE = 600_000
"""Bytes"""


@dataclass(frozen=True)
class RunAttention:
    """The record of a run, and where it is."""

    run: str
    folder: Path
    record: AttentionRecord

    @property
    def kind(self) -> str:
        """The attention of its first block."""
        return self.record.blocks[0].attention


@dataclass(frozen=True)
class AttentionNumbers:
    """The numbers of a run's record; of a damaged one, the problem alone."""

    run: str
    problem: str = ""
    data: str | None = None
    model: str = ""
    seed: int | None = None
    images_scored: int = 0
    blocks: tuple[BlockRecord, ...] = ()
    untrained: UntrainedStart | None = None
    ablations: Ablations | None = None
    origin: Origin = field(default_factory=Origin)


def find_attention(
    runs: Sequence[RunRecord],
) -> tuple[list[RunAttention], list[AttentionNumbers]]:
    """The records of the runs that have one; and their numbers, damaged ones at the end."""
    found, damaged = [], []
    for run in runs:
        folder = run.path / "attention"
        try:
            record = read_attention(folder)
        except CommandError as error:
            problem = str(error).replace(f"{run.path}/", "")
            damaged.append(AttentionNumbers(run.name, problem))
            continue
        if record is not None:
            found.append(RunAttention(run.name, folder, record))
    return found, [*map(_numbers, found), *damaged]


def _numbers(one: RunAttention) -> AttentionNumbers:
    record = one.record
    return AttentionNumbers(
        *(one.run, "", record.data, record.model, record.seed, record.images_scored),
        *(record.blocks, record.untrained, record.ablations, record.origin),
    )


@dataclass(frozen=True)
class ScorePair:
    """A score of one block, after training and before."""

    trained: Summary
    untrained: Summary


@dataclass(frozen=True)
class ScoreRow:
    """One score, with a cell per run; None where a block has no such score."""

    name: str
    cells: tuple[ScorePair | None, ...]


@dataclass(frozen=True)
class ScorePart:
    """The scores of one block, counted from 1."""

    number: int
    rows: tuple[ScoreRow, ...]


@dataclass(frozen=True)
class ScoreTable:
    """Some runs of one data set and network side by side."""

    data: str
    model: str
    runs: tuple[AttentionNumbers, ...]
    parts: tuple[ScorePart, ...]

    @property
    def ablation_names(self) -> list[str]:
        """The ablations that any of its runs was tested with."""
        found = [run.ablations.error_pct for run in self.runs if run.ablations]
        return list(dict.fromkeys(name for errors in found for name in errors))


def score_tables(items: Iterable[AttentionNumbers]) -> list[ScoreTable]:
    """Tables of at most COLUMNS runs of one data set and network, softmax beside the others."""
    groups: dict[tuple[str, str], list[AttentionNumbers]] = {}
    for item in items:
        if not item.problem:
            groups.setdefault((item.data or "photos", item.model), []).append(item)
    tables = []
    for (data, model), found in groups.items():
        found.sort(key=_column_order)
        for first in range(0, len(found), COLUMNS):
            runs = tuple(found[first : first + COLUMNS])
            tables.append(ScoreTable(data, model, runs, tuple(_parts(runs))))
    return tables


def _column_order(item: AttentionNumbers) -> tuple[int, bool, str]:
    seed = -1 if item.seed is None else item.seed
    return seed, item.blocks[0].attention != "softmax", item.run


def _parts(runs: Sequence[AttentionNumbers]) -> Iterable[ScorePart]:
    """One part per block, with a row per score and a cell per run."""
    order = list(SCORES)
    for number in range(max(len(run.blocks) for run in runs)):
        blocks = [run.blocks[number] if number < len(run.blocks) else None for run in runs]
        names = dict.fromkeys(name for block in blocks if block for name in block.scores)
        ordered = sorted(names, key=lambda name: order.index(name) if name in order else 99)
        rows = (ScoreRow(name, tuple(_pair(block, name) for block in blocks)) for name in ordered)
        yield ScorePart(number + 1, tuple(rows))


def _pair(block: BlockRecord | None, name: str) -> ScorePair | None:
    if block is None or name not in block.scores:
        return None
    return ScorePair(block.scores[name], block.untrained[name])


@dataclass(frozen=True)
class ShownRun:
    """A run in the explorer."""

    name: str
    blocks: tuple[BlockRecord, ...]
    images: tuple[ExplorerImage, ...]
    """Without the pictures, which all runs share"""


@dataclass(frozen=True)
class Explorer:
    """The page's explorer; page.js reads it."""

    images: tuple[ExplorerImage, ...] = ()
    """Without vectors"""
    runs: tuple[ShownRun, ...] = ()
    panels: tuple[tuple[int, ...], ...] = ()
    """Which runs each picture offers: one picture per kind of attention, softmax first"""
    left_out: int = 0
    """Runs that have other images or would make the page too large"""


def explorer(records: Sequence[RunAttention]) -> Explorer:
    """Runs of one data set with the images that all of them have; softmax left, scaled right."""
    usable = [one for one in records if one.record.explorer.images]
    groups: dict[tuple[str | None, bytes], list[RunAttention]] = {}
    for one in usable:
        # The same pictures, not only the same name: `pairs` has many sizes.
        picture = one.record.explorer.images[0].png
        groups.setdefault((one.record.data, picture), []).append(one)
    # The data set on which most kinds of attention can be compared, the first of those.
    chosen = max(groups.values(), key=lambda group: len({one.kind for one in group}), default=[])
    kept = _that_fit(chosen)
    images = [{image.index: image for image in one.record.explorer.images} for one in kept]
    shared = _shared_images(images)
    if not shared:
        return Explorer(left_out=len(usable))
    kinds: dict[str, list[int]] = {}
    for number, one in enumerate(kept):
        kinds.setdefault(one.kind, []).append(number)
    return Explorer(
        tuple(replace(images[0][index], predicted=None, blocks=()) for index in shared),
        tuple(
            ShownRun(
                one.run,
                one.record.blocks,
                tuple(replace(mine[index], png=b"") for index in shared),
            )
            for one, mine in zip(kept, images, strict=True)
        ),
        tuple(tuple(kinds[kind]) for kind in sorted(kinds, key=lambda kind: kind != "softmax")),
        len(usable) - len(kept),
    )


def _that_fit(group: Sequence[RunAttention]) -> list[RunAttention]:
    """One of each kind of attention first, then the others while there is room."""
    firsts = list({one.kind: one for one in reversed(group)}.values())
    firsts.sort(key=group.index)
    kept, room = [], EXPLORER_BYTES
    for one in [*firsts, *(one for one in group if one not in firsts)]:
        images = one.record.explorer.images
        size = sum(len(v.theta) + len(v.phi) for image in images for v in image.blocks)
        if size <= room:
            kept.append(one)
            room -= size
    return kept


def _shared_images(images: Sequence[dict[int, ExplorerImage]]) -> list[int]:
    """The indices under which all runs have the same picture."""
    return [
        index
        for index, image in (images[0].items() if images else ())
        if all(index in other and other[index].png == image.png for other in images)
    ]


@dataclass(frozen=True)
class Picture:
    """An attention map on the page."""

    url: str
    words: str


def map_pictures(records: Sequence[RunAttention]) -> list[Picture]:
    """The first map of one run of each data set and attention, in each set of colours."""
    found: dict[tuple[str, bool, str, str], Picture] = {}
    for one in records:
        for item in one.record.maps:
            attention = one.record.blocks[item.block].attention
            kind = str(one.record.data), attention != "softmax", attention, item.colours
            if kind not in found and len(found) < PICTURES:
                url = _data_url(one.folder / item.file)
                words = f"{one.run}, {attention}, {item.colours} colours"
                if url:
                    found[kind] = Picture(url, words)
    return [found[kind] for kind in sorted(found)]


def _data_url(path: Path) -> str:
    """A PNG as part of the page; nothing if it is a link, not there, not one, or too large."""
    try:
        data = b"" if path.is_symlink() else read_bytes(path, LARGEST_PICTURE)
    except (FileNotFoundError, CommandError):
        return ""
    if not data.startswith(PNG):
        return ""
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")
