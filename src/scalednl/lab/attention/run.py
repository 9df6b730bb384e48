"""All that `scalednl attention` makes of its sources: records, tables, figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from scalednl.errors import CommandError, UsageError
from scalednl.inspection.capture import find_block
from scalednl.lab.attention.figures import Panel, draw_maps, draw_overlays, save_figure
from scalednl.lab.attention.queries import Place, default_queries
from scalednl.lab.attention.record import write_record
from scalednl.lab.attention.scoring import Look, look_at
from scalednl.lab.attention.source import Subject, open_subject
from scalednl.lab.records.attention import read_attention
from scalednl.lab.records.run import RunFolder


@dataclass(frozen=True)
class Choices:
    """What to draw."""

    block: int | str = 0
    head: int | None = None
    """None: the first for whole maps, all for single pixels"""
    queries: tuple[Place, ...] = ()
    """Pixels of the image; none: some sensible ones"""


@dataclass(frozen=True)
class Shown:
    """What came of it."""

    records: list[dict[str, Any]]
    """One for each source, without the vectors of its explorer"""
    written: list[Path]


def show(
    sources: Sequence[Path],
    choices: Choices,
    *,
    photos: Sequence[Path] = (),
    images: int = 500,
    test_images: int | None = None,
    data: str | None = None,
    root: Path | None = None,
    out: Path | None = None,
    quiet: bool = False,
) -> Shown:
    """Look at networks, write a record and bare maps for each, and joint figures."""
    open_one = partial(
        open_subject, images=images, test_images=test_images, photos=photos, data=data, root=root
    )
    opened = [open_one(path) for path in sources]
    looked = [look_at(subject) for subject in opened]
    # Every figure is checked before anything is scored or written.
    shown = [
        [choose(subject, looks[n], choices) for subject, looks in zip(opened, looked, strict=True)]
        for n in range(len(photos) or 1)
    ]
    folders = _folders(sources, photos, out)
    records, written = [], []
    for subject, looks, folder in zip(opened, looked, folders, strict=True):
        path = write_record(subject, looks, folder, quiet=quiet)
        record = read_attention(folder)
        assert record is not None
        records.append({key: value for key, value in record.items() if key != "explorer"})
        written.append(path)
    for number, panels in enumerate(shown):
        written += _draw(panels, out or folders[0], f"-{number}" if number else "")
    return Shown(records, written)


def choose(subject: Subject, look: Look, choices: Choices) -> Panel:
    """What a figure shows of one network; refuses what does not exist."""
    names = [seen.name for seen in look.blocks]
    try:
        block = names.index(find_block(names, choices.block))
    except ValueError as error:
        raise UsageError(f"{subject.name}: {error}") from error
    seen = look.blocks[block]
    heads = seen.block.heads
    if choices.head is not None and not 0 <= choices.head < heads:
        raise UsageError(
            f"{subject.name}: head {choices.head} does not exist: {seen.name} has heads 0 to "
            f"{heads - 1}"
        )
    height, width = look.picture.pixels.shape[:2]
    for row, column in choices.queries:
        if row >= height or column >= width:
            raise UsageError(
                f"--query {row},{column} is outside: {look.picture.title} has rows 0 to "
                f"{height - 1} and columns 0 to {width - 1}"
            )
    if seen.factors.is_large and not choices.queries:
        raise UsageError(
            f"a map of {look.picture.title} has {seen.factors.queries:,} x {seen.factors.keys:,} = "
            f"{seen.factors.entries:,} entries, too many to draw: name pixels with --query "
            "ROW,COLUMN to see their rows, or give a smaller image"
        )
    data = None if subject.batches is None else subject.info.name
    queries = choices.queries or tuple(default_queries(look.picture.pixels, data))
    chosen = tuple(range(heads)) if choices.head is None else (choices.head,)
    return Panel(subject.name, look, block, chosen, queries)


def _draw(panels: Sequence[Panel], folder: Path, end: str) -> list[Path]:
    """Figure 1 of the maps that can be built whole, and where single pixels look."""
    written = []
    small = [panel for panel in panels if not panel.seen.factors.is_large]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if small:
            written += save_figure(draw_maps(small), folder, f"figure1{end}")
        return written + save_figure(draw_overlays(panels), folder, f"overlays{end}")
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror}") from error


def _folders(sources: Sequence[Path], photos: Sequence[Path], out: Path | None) -> list[Path]:
    """A folder for each source: its own, or one inside `out` where there are several."""
    if out is not None and len(sources) == 1:
        return [out]
    # Photos do not take the place of what was seen of the data.
    end = f"-{photos[0].stem}" if photos else ""
    folders: list[Path] = []
    for path in sources:
        name = path.resolve().name if path.is_dir() else path.stem
        if out is None and path.is_dir():
            own = RunFolder(path).attention
            folder = own.with_name(f"{own.name}{end}")
        elif out is None:
            folder = path.with_name(f"{name}-attention{end}")
        else:
            folder = out / name
        while folder in folders:
            folder = folder.with_name(f"{folder.name}-again")
        folders.append(folder)
    return folders
