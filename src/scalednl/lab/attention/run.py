"""All that `scalednl attention` makes of its sources: records, tables, figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scalednl.errors import UsageError
from scalednl.files import writing_to
from scalednl.inspection.capture import find_block
from scalednl.lab.attention.figures import MapPanel, draw_maps, draw_overlays, save_figure
from scalednl.lab.attention.picture import Picture
from scalednl.lab.attention.queries import ImagePlace, grating_queries, spread_queries
from scalednl.lab.attention.record import write_record
from scalednl.lab.attention.scoring import Observation, observe, score
from scalednl.lab.attention.source import NetworkSource, open_source
from scalednl.lab.records.attention import FILE, AttentionRecord
from scalednl.lab.records.run import RunFolder


@dataclass(frozen=True)
class DrawOptions:
    """What to draw."""

    block: int | str = 0
    head: int | None = None
    """None: the first for complete maps, all for single pixels"""
    queries: tuple[ImagePlace, ...] = ()
    """Pixels of the image; of a photo, those of its file. None: `grating_queries` or
    `spread_queries`"""


@dataclass(frozen=True)
class Written:
    """The records of all sources, and the files with them and their figures."""

    records: list[AttentionRecord]
    """One for each source"""
    folders: list[Path]
    """Where the records are"""
    paths: list[Path]
    """Everything that was written"""
    joint: Path
    """The folder of what all sources share"""


def inspect_sources(
    paths: Sequence[Path],
    options: DrawOptions,
    *,
    photos: Sequence[Path] = (),
    resize: int | None = None,
    images: int = 500,
    test_images: int | None = None,
    data: str | None = None,
    root: Path | None = None,
    out: Path | None = None,
    quiet: bool = False,
) -> Written:
    """Score networks; write a record and bare maps for each, and joint figures."""
    sources = [
        open_source(
            path,
            images=images,
            test_images=test_images,
            photos=photos,
            resize=resize,
            data=data,
            root=root,
        )
        for path in paths
    ]
    observed = [observe(source) for source in sources]
    # Every figure is checked before anything is scored or written.
    figures = [
        [choose(source, seen[n], options) for source, seen in zip(sources, observed, strict=True)]
        for n in range(len(photos) or 1)
    ]
    folders = _folders(paths, photos, out)
    found = Written([], folders, [], out or folders[0])
    for source, seen, folder in zip(sources, observed, folders, strict=True):
        found.records.append(write_record(source, seen, score(source, quiet), folder))
        found.paths.append(folder / FILE)
    for number, panels in enumerate(figures):
        found.paths.extend(_draw(panels, found.joint, f"-{number}" if number else ""))
    return found


def choose(source: NetworkSource, observed: Observation, options: DrawOptions) -> MapPanel:
    """The part of one network in a figure; raises if a block, head or pixel does not exist."""
    names = [seen.name for seen in observed.blocks]
    try:
        block = names.index(find_block(names, options.block))
    except ValueError as error:
        raise UsageError(f"{source.name}: {error}") from error
    seen = observed.blocks[block]
    heads = seen.block.heads
    if options.head is not None and not 0 <= options.head < heads:
        raise UsageError(
            f"{source.name}: head {options.head} does not exist: {seen.name} has heads 0 to "
            f"{heads - 1}"
        )
    title = observed.picture.title
    height, width = observed.picture.size
    for row, column in options.queries:
        if row >= height or column >= width:
            raise UsageError(
                f"--query {row},{column} is outside: {title} has rows 0 to "
                f"{height - 1} and columns 0 to {width - 1}"
            )
    queries = options.queries or _default_queries(source, observed.picture)
    chosen = tuple(range(heads)) if options.head is None else (options.head,)
    return MapPanel(source.name, observed, block, chosen, tuple(queries))


def _default_queries(source: NetworkSource, picture: Picture) -> Sequence[ImagePlace]:
    generated = source.shows_generated_images
    return grating_queries(picture.pixels) if generated else spread_queries(picture.size)


def _draw(panels: Sequence[MapPanel], folder: Path, end: str) -> list[Path]:
    """Figure 1 of the maps that are small enough to be formed, and where single pixels look."""
    written = []
    small = [panel for panel in panels if not panel.seen.is_large]
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if small:
            written += save_figure(draw_maps(small), folder, f"figure1{end}")
        return written + save_figure(draw_overlays(panels), folder, f"overlays{end}")


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
