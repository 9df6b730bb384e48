"""The record of a network's attention: scores, bare maps, and the vectors for an explorer."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from scalednl.errors import CommandError
from scalednl.files import replacing
from scalednl.inspection.capture import BlockAttention
from scalednl.lab.attention import explorer
from scalednl.lab.attention.colours import COLOURS, bare_picture, colour_range, shrunk
from scalednl.lab.attention.explorer import encode_png, explorer_block, letters_of
from scalednl.lab.attention.scoring import (
    BlockScores,
    Look,
    ablation_errors,
    look_at,
    score_subject,
)
from scalednl.lab.attention.source import Subject, open_subject
from scalednl.lab.attention.untrained import untrained
from scalednl.lab.records import origin
from scalednl.lab.records.attention import write_attention
from scalednl.lab.records.run import RunFolder
from scalednl.lab.stats import summarise


def record_run(
    path: str | Path,
    *,
    images: int = 500,
    test_images: int | None = None,
    root: str | Path | None = None,
    quiet: bool = True,
) -> Path:
    """Look at the blocks of a finished run, and write the record to its `attention` folder.

    Args:
        path: the run directory.
        images: how many test images to score, the classes in their proportions.
        test_images: how many test images to test it on with its maps replaced; None is all.
        root: where data sets are kept.
        quiet: show no progress.
    """
    path = Path(path)
    root = None if root is None else Path(root)
    subject = open_subject(path, images=images, test_images=test_images, root=root)
    return write_record(subject, look_at(subject), RunFolder(path).attention, quiet=quiet)


def write_record(
    subject: Subject, looks: Sequence[Look], folder: Path, *, quiet: bool = True
) -> Path:
    """Score a network and write all that was seen of it; gives the path of the JSON."""
    record = describe(subject, looks, quiet=quiet)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        record["maps"] = write_maps(looks[0], folder)
        return write_attention(folder, record)
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror}") from error


def describe(subject: Subject, looks: Sequence[Look], *, quiet: bool = True) -> dict[str, Any]:
    """The record as plain values, without its bare maps; scores and tests the network."""
    start = untrained(subject)
    trained_scores = score_subject(subject, quiet=quiet)
    start_scores = score_subject(subject, start.model, quiet=quiet)
    config, experiment = subject.model.config, subject.experiment
    assert config is not None
    first = looks[0].blocks
    return {
        "source": subject.name,
        "recipe": experiment.recipe if experiment else None,
        "seed": experiment.seed if experiment else None,
        "data": None if subject.batches is None else subject.info.name,
        "model": config.name,
        "position": config.position,
        "origin": origin(threads=torch.get_num_threads()).as_dict(),
        "images_scored": subject.images,
        "blocks": [
            {
                **_described(seen),
                **_summaries(subject.name, found),
                "untrained": _summaries(f"{subject.name}, untrained,", before)["scores"],
            }
            for seen, found, before in zip(first, trained_scores, start_scores, strict=True)
        ],
        "untrained": {"seed": start.seed, "start": start.start},
        "ablations": _ablations(subject, quiet),
        "maps": [],
        "explorer": explore([look for look in looks if _same_sizes(look, first)], len(looks)),
    }


def _ablations(subject: Subject, quiet: bool) -> dict[str, Any] | None:
    errors = ablation_errors(subject, quiet)
    if errors is None or subject.tested is None:
        return None
    return {"images": subject.tested.images, "error_pct": errors}


def explore(looks: Sequence[Look], wanted: int) -> dict[str, Any]:
    """Vectors of as many images as fit, and how many were left out."""
    for bits in explorer.BITS:
        fits = explorer.LARGEST // letters_of(looks[0].blocks, bits)
        if fits >= len(looks):
            break
    images = [_explored(look, bits) for look in looks[:fits]]
    return {"images": images, "left_out": wanted - len(images)}


def write_maps(look: Look, folder: Path) -> list[dict[str, Any]]:
    """Bare pictures of every map of an image that can be built whole, in both colour maps."""
    written = []
    for number, seen in enumerate(look.blocks):
        if seen.factors.is_large:
            continue
        for head in range(seen.block.heads):
            values = shrunk(seen.map(0, head))
            for colours in COLOURS:
                end = "" if colours == "hot" else f"-{colours}"
                name = f"map-image0-block{number}-head{head}{end}.png"
                with replacing(folder / name) as temporary:
                    bare_picture(values, colours).save(temporary, "PNG", optimize=True)
                low, high = colour_range(values, colours)
                place = {"file": name, "image": 0, "block": number, "head": head}
                written.append({**place, "colours": colours, "low": low, "high": high})
    return written


def _described(seen: BlockAttention) -> dict[str, Any]:
    block = seen.block
    return {
        "name": seen.name,
        "attention": block.attention,
        "view": block.view,
        "heads": block.heads,
        "channels": block.channels,
        "embed_channels": block.embed_channels,
        "query_size": list(seen.query_size),
        "key_size": list(seen.key_size),
    }


def _summaries(name: str, scores: BlockScores) -> dict[str, Any]:
    """Heads averaged in every image, then summarised over images; and every head's mean."""
    values = {**{n: v.mean(1) for n, v in scores.maps.items()}, **scores.branch}
    found: Mapping[str, list[float]] = {n: v.tolist() for n, v in values.items()}
    if not all(math.isfinite(number) for numbers in found.values() for number in numbers):
        raise CommandError(f"{name} computes numbers that are not finite: did it diverge?")
    return {
        "scores": {n: summarise(numbers).as_dict() for n, numbers in found.items()},
        "head_scores": {n: v.mean(0).tolist() for n, v in scores.maps.items()},
    }


def _explored(look: Look, bits: int) -> dict[str, Any]:
    height, width, _ = look.picture.pixels.shape
    return {
        "index": look.picture.index,
        "label": look.picture.label,
        "predicted": look.predicted,
        "height": height,
        "width": width,
        "png": encode_png(look.picture.pixels),
        "blocks": [explorer_block(seen, 0, bits) for seen in look.blocks],
    }


def _same_sizes(look: Look, first: Sequence[BlockAttention]) -> bool:
    """Photos may differ in size; a record's blocks have one."""
    return all(
        (a.query_size, a.key_size) == (b.query_size, b.key_size)
        for a, b in zip(look.blocks, first, strict=True)
    )
