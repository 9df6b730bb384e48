"""`scalednl attention`: what the blocks of trained networks attend to."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from scalednl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalednl.lab.records.attention import AttentionRecord, BlockRecord
    from scalednl.lab.stats import Summary

Sources = Annotated[
    tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN_OR_WEIGHTS ...")
]
Photos = Annotated[
    tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(name="image", metavar="PHOTO")
]
Queries = Annotated[
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(name="query", metavar="ROW,COLUMN")
]
Number = Annotated[int | None, tyro.conf.arg(metavar="N")]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]


def attention(
    sources: Sources,
    photos: Photos = (),
    resize: Annotated[int | None, tyro.conf.arg(metavar="PIXELS")] = None,
    images: Annotated[int, tyro.conf.arg(metavar="N")] = 500,
    test_images: Number = None,
    block: Annotated[str, tyro.conf.arg(metavar="BLOCK")] = "0",
    head: Number = None,
    queries: Queries = (),
    data: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    root: Folder = None,
    threads: Number = None,
    out: Folder = None,
    json: bool = False,
) -> None:
    """Show what the non-local blocks of trained networks attend to, and score it.

    Prints the scores of every block beside those of the untrained network, and the test error with
    the maps of all blocks replaced; of photos, the most probable classes. Writes the maps as in the
    paper's Figure 1 (of several networks side by side), where chosen pixels look, attention.json,
    and attention.html, a page on which you point at a pixel to see where it looks.

    For example `scalednl attention runs/pairs-scaled-seed0`, or side by side
    `scalednl attention runs/pairs-softmax-seed0 runs/pairs-scaled-seed0`, or
    `scalednl attention net.safetensors --image photo.png --query 120,80 --query 30,200`.

    Args:
        sources: Run directories, files of scalednl.save_model, or names of
            scalednl.list_weights.
        photos: Use this photo instead of test images; give it again for more. One that is larger
            than the training images is reduced to their size.
        resize: Show photos to the network with this many pixels on the shorter side.
        images: Test images to score, the classes in their proportions.
        test_images: Test images on which the network is tested with its maps replaced; all if not
            given.
        block: The block to draw, by number or path.
        head: The head to draw; if not given, the first for the maps, all for the pixels.
        queries: A pixel of the image (of a photo, in its file), whose attention is drawn; give it
            again for more. Places spread over the image if not given.
        data: The data set, if it is not the run's own.
        root: Folder of the data sets; $SCALEDNL_DATA or the platform's cache folder if not given.
        threads: Processor threads for torch; its own default if not given.
        out: Where to write: RUN/attention if not given, for a file NAME-attention beside it, for a
            name the same in the current folder.
        json: Print JSON instead of tables.
    """
    import json as encoder

    from scalednl.lab.allocator import keep_memory
    from scalednl.lab.attention.run import DrawOptions, inspect_sources
    from scalednl.lab.machine import use_threads
    from scalednl.lab.records.typed_json import plain_values
    from scalednl.lab.report.attention_page import write_attention_page

    if not sources:
        raise UsageError("name a run directory, a file of scalednl.save_model, or weights by name")
    use_threads(threads)
    keep_memory()
    options = DrawOptions(
        int(block) if block.isdecimal() else block, head, tuple(_place(text) for text in queries)
    )
    found = inspect_sources(
        sources,
        options,
        photos=photos,
        resize=resize,
        images=images,
        test_images=test_images,
        data=data,
        root=root,
        out=out,
        quiet=json,
    )
    page = write_attention_page(
        list(zip(found.folders, found.records, strict=True)), found.joint / "attention.html"
    )
    if json:
        values = [plain_values(record) for record in found.records]
        for value in values:
            del value["explorer"]
        print(encoder.dumps(values, indent=2))
        return
    for record in found.records:
        _print(record)
    print("\n".join(str(path) for path in [*found.paths, page]))


def _place(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise UsageError(f"--query {text} is not ROW,COLUMN: give a pixel such as 12,20")
    return int(parts[0]), int(parts[1])


def _print(record: "AttentionRecord") -> None:
    from scalednl.lab.console import counted, print_table

    images, data = record.images_scored, record.data
    what = f"{counted(images, 'image')} of {data}" if data else counted(images, "photo")
    interval = "; mean (95 % interval over images)" if images > 1 else ""
    print(f"{record.source}: {record.model}, on {what}{interval}\n")
    for photo in record.photos:
        print(f"{photo.file}: {photo.width} x {photo.height} pixels; {'; '.join(photo.notes)}")
        rows = [[found.name, f"{100 * found.probability:.1f} %"] for found in photo.classes]
        print_table(["class", "probability"], rows)
    blocks = record.blocks
    names = list(blocks[0].scores)
    if names:
        head = ["score"]
        for block in blocks:
            head += [f"{block.name} ({block.attention})", "untrained"]
        print_table(head, [_row(name, blocks) for name in names])
        print(f"untrained: {record.untrained.start}\n")
    else:
        print("Its maps are too large to be scored or drawn; single pixels are drawn.\n")
    if record.ablations:
        rows = [[name, f"{error:.2f}"] for name, error in record.ablations.error_pct.items()]
        tested = f"error on {record.ablations.images:,} test images, %"
        print_table(["maps of all blocks", tested], rows)


def _row(name: str, blocks: "Sequence[BlockRecord]") -> list[str]:
    cells = [name]
    for block in blocks:
        cells += [_interval(block.scores[name]), _number(block.untrained[name].mean)]
    return cells


def _interval(summary: "Summary") -> str:
    if summary.low is None or summary.high is None:
        return _number(summary.mean)
    return " ".join([_number(summary.mean), f"({_number(summary.low)} to {_number(summary.high)})"])


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
