"""Records of attention on the page: tables of scores, pictures of maps, and the explorer."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from scalednl.errors import CommandError
from scalednl.files import read_bytes
from scalednl.lab.records.attention import (
    PNG,
    AttentionRecord,
    BlockRecord,
    ExplorerImage,
    read_attention,
)
from scalednl.lab.records.runs import LINK, RunRecord
from scalednl.lab.report.curves import order_of
from scalednl.lab.report.formatting import SCORES
from scalednl.lab.stats import Summary

COLUMNS = 4
"""Runs beside each other in a table of scores, so that it fits a window of 1440 pixels"""
EXPLORER_BYTES = 2_250_000
"""Most bytes of vectors that the explorer may add to the page"""
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

    def score(self, block: int, name: str) -> tuple[Summary, Summary] | None:
        """A score after training and before; None where there is no such block or score."""
        found = self.record.blocks[block : block + 1]
        if not found or name not in found[0].scores:
            return None
        return found[0].scores[name], found[0].untrained[name]


def find_attention(runs: Sequence[RunRecord]) -> tuple[list[RunAttention], list[str]]:
    """The records of the runs that have one, and a sentence per damaged one."""
    found, damaged = [], []
    for run in (run for run in runs if run.note != LINK):
        folder = run.path / "attention"
        try:
            record = read_attention(folder)
        except CommandError as error:
            damaged.append(f"{run.name}: {error}".replace(f"{run.path}/", ""))
            continue
        if record is not None:
            found.append(RunAttention(run.name, folder, record))
    return found, damaged


@dataclass(frozen=True)
class ScoreTable:
    """Some runs of one data set and network side by side."""

    data: str
    model: str
    runs: tuple[RunAttention, ...]

    @property
    def scores(self) -> list[list[str]]:
        """For each block the names of its scores, in the order of `SCORES`."""
        order = {name: place for place, name in enumerate(SCORES)}
        found: list[list[str]] = []
        for blocks in zip_longest(*(run.record.blocks for run in self.runs)):
            names = dict.fromkeys(name for block in blocks if block for name in block.scores)
            found.append(sorted(names, key=lambda name: order.get(name, len(order))))
        return found

    @property
    def ablations(self) -> list[str]:
        """The ablations that any of its runs was tested with."""
        found = [run.record.ablations.error_pct for run in self.runs if run.record.ablations]
        return list(dict.fromkeys(name for errors in found for name in errors))


def score_tables(items: Iterable[RunAttention]) -> list[ScoreTable]:
    """Tables of at most COLUMNS runs of one data set and network, softmax beside the others."""
    groups: dict[tuple[str, str], list[RunAttention]] = {}
    for item in items:
        groups.setdefault((item.record.data or "photos", item.record.model), []).append(item)
    return [
        ScoreTable(data, model, tuple(runs[first : first + COLUMNS]))
        for (data, model), found in groups.items()
        for runs in [sorted(found, key=_column_order)]
        for first in range(0, len(runs), COLUMNS)
    ]


def _column_order(item: RunAttention) -> tuple[int, int, str]:
    seed = -1 if item.record.seed is None else item.record.seed
    return seed, order_of(item.kind), item.run


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
        tuple(tuple(kinds[kind]) for kind in sorted(kinds, key=order_of)),
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


def map_pictures(records: Sequence[RunAttention]) -> list[tuple[str, str]]:
    """The first map of one run of each data set and attention, in each set of colours.

    Each is the URL of a picture, and what it shows.
    """
    found: dict[tuple[str, int, str, str], tuple[str, str]] = {}
    for one in records:
        for item in one.record.maps:
            attention = one.record.blocks[item.block].attention
            kind = str(one.record.data), order_of(attention), attention, item.colours
            if kind not in found and len(found) < PICTURES:
                url = _data_url(one.folder / item.file)
                words = f"{one.run}, {attention}, {item.colours} colours"
                if url:
                    found[kind] = url, words
    return [found[kind] for kind in sorted(found)]


def _data_url(path: Path) -> str:
    """A PNG as part of the page; nothing if it is a link, not there, not one, or too large."""
    try:
        run = path.parent.parent
        data = b"" if path.is_symlink() else read_bytes(path, LARGEST_PICTURE, run)
    except (FileNotFoundError, CommandError):
        return ""
    if not data.startswith(PNG):
        return ""
    return png_url(data)


def png_url(data: bytes) -> str:
    """A PNG as a URL that contains it."""
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")
