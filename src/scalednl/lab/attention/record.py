"""The record of a network's attention: scores, bare maps, and the vectors for an explorer."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import torch

from scalednl.files import replacing, writing_to
from scalednl.inspection.capture import BlockAttention
from scalednl.lab.attention import explorer
from scalednl.lab.attention.colours import COLOURS, bare_picture, colour_range, shrunk
from scalednl.lab.attention.explorer import Bits, encode_png, explorer_block, letters_of
from scalednl.lab.attention.read_photo import Photo
from scalednl.lab.attention.scoring import BlockScores, Observation, Scores, observe, score
from scalednl.lab.attention.source import NetworkSource, open_source
from scalednl.lab.records import origin
from scalednl.lab.records.attention import (
    Ablations,
    AttentionRecord,
    BlockRecord,
    ExplorerImage,
    ExplorerImages,
    MapPicture,
    PhotoRecord,
    UntrainedStart,
    Vectors,
    write_attention,
)
from scalednl.lab.records.run import RunFolder
from scalednl.lab.stats import Summary, summarise
from scalednl.models.foreign_network import config_of


def record_run(
    path: str | Path,
    *,
    images: int = 500,
    test_images: int | None = None,
    root: str | Path | None = None,
    quiet: bool = True,
) -> None:
    """Score the blocks of a finished run, and write the record to its `attention` folder.

    Args:
        path: the run directory.
        images: how many test images to score, the classes in their proportions.
        test_images: how many test images to test it on with its maps replaced; None is all.
        root: where data sets are kept.
        quiet: show no progress.
    """
    path = Path(path)
    root = None if root is None else Path(root)
    source = open_source(path, images=images, test_images=test_images, root=root)
    observations = observe(source)
    write_record(source, observations, score(source, quiet), RunFolder(path).attention)


def write_record(
    source: NetworkSource, observations: Sequence[Observation], scores: Scores, folder: Path
) -> AttentionRecord:
    """Write the record of a network and its bare maps into a folder; returns the record."""
    record = describe(source, observations, scores)
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        record = replace(record, maps=tuple(write_maps(observations[0], folder)))
        write_attention(folder, record)
    return record


def describe(
    source: NetworkSource, observations: Sequence[Observation], scores: Scores
) -> AttentionRecord:
    """The record without its bare maps."""
    config, experiment = config_of(source.model), source.experiment
    assert config is not None
    first = observations[0].blocks
    return AttentionRecord(
        source=source.name,
        recipe=experiment.recipe if experiment else None,
        seed=experiment.seed if experiment else None,
        data=None if source.batches is None else source.info.name,
        model=config.name,
        position=config.position,
        origin=origin(threads=torch.get_num_threads()),
        images_scored=source.images,
        blocks=tuple(
            _described(seen, found, before)
            for seen, found, before in zip(first, scores.trained, scores.untrained, strict=True)
        ),
        untrained=UntrainedStart(scores.start.seed, scores.start.start),
        ablations=_ablations(source, scores.ablation_error_pct),
        maps=(),
        explorer=explore(observations),
        photos=tuple(
            _photo(observed, observed.picture.photo)
            for observed in observations
            if observed.picture.photo is not None
        ),
    )


def _photo(observed: Observation, photo: Photo) -> PhotoRecord:
    picture = observed.picture
    height, width, _ = picture.pixels.shape
    return PhotoRecord(picture.title, *photo.size, height, width, picture.notes, observed.classes)


def _ablations(source: NetworkSource, error_pct: dict[str, float]) -> Ablations | None:
    tested = source.tested
    return Ablations(tested.images, error_pct) if tested and error_pct else None


def explore(observations: Sequence[Observation]) -> ExplorerImages:
    """Vectors of as many images as fit, and how many were left out."""
    for bits in explorer.BITS:
        sizes = accumulate(letters_of(observed.blocks, bits) for observed in observations)
        fits = sum(size <= explorer.LARGEST for size in sizes)
        if fits == len(observations):
            break
    first = observations[0].blocks
    images = [_explored(observed, first, bits) for observed in observations[:fits]]
    pictures = accumulate(len(image.png) for image in images)
    kept = sum(size <= explorer.LARGEST_PICTURES for size in pictures)
    return ExplorerImages(tuple(images[:kept]), len(observations) - kept)


def write_maps(observed: Observation, folder: Path) -> list[MapPicture]:
    """Bare pictures of every map of an image that is small enough, in both colour maps."""
    written = []
    for number, seen in enumerate(observed.blocks):
        if seen.is_large:
            continue
        for head in range(seen.block.heads):
            values = shrunk(seen.map(0, head))
            for colours in COLOURS:
                end = "" if colours == "hot" else f"-{colours}"
                name = f"map-image0-block{number}-head{head}{end}.png"
                with replacing(folder / name) as temporary:
                    bare_picture(values, colours).save(temporary, "PNG", optimize=True)
                low, high = colour_range(values, colours)
                written.append(MapPicture(name, 0, number, head, colours, low, high))
    return written


def _described(seen: BlockAttention, trained: BlockScores, untrained: BlockScores) -> BlockRecord:
    block = seen.block
    return BlockRecord(
        name=seen.name,
        attention=block.attention,
        view=block.view,
        heads=block.heads,
        channels=block.channels,
        embed_channels=block.embed_channels,
        query_size=tuple(seen.query_size),
        key_size=tuple(seen.key_size),
        scores=_summaries(trained),
        head_scores={name: tuple(v.mean(0).tolist()) for name, v in trained.maps.items()},
        untrained=_summaries(untrained),
    )


def _summaries(scores: BlockScores) -> dict[str, Summary]:
    """Heads averaged in every image, then summarised over images."""
    values = {**{name: found.mean(1) for name, found in scores.maps.items()}, **scores.branch}
    return {name: summarise(found.tolist()) for name, found in values.items()}


def _explored(observed: Observation, first: Sequence[BlockAttention], bits: Bits) -> ExplorerImage:
    """One picture; photos may have maps of other sizes than those of the `first`."""
    picture = observed.picture
    shown = picture.shown
    height, width, _ = shown.shape
    return ExplorerImage(
        index=picture.index,
        label=picture.label,
        predicted=observed.predicted,
        height=height,
        width=width,
        png=encode_png(shown),
        blocks=tuple(
            _sized(explorer_block(seen, 0, bits), seen, usual)
            for seen, usual in zip(observed.blocks, first, strict=True)
        ),
        title=picture.title if picture.photo else None,
    )


def _sized(vectors: Vectors, seen: BlockAttention, usual: BlockAttention) -> Vectors:
    if (seen.query_size, seen.key_size) == (usual.query_size, usual.key_size):
        return vectors
    return replace(vectors, query_size=tuple(seen.query_size), key_size=tuple(seen.key_size))
