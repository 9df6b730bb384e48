"""A network run over its images: scores of every block, and what it saw of each picture."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.errors import CommandError
from scalednl.inspection.ablations import ablated_classes, ablations_of
from scalednl.inspection.capture import BlockAttention, capture_attention
from scalednl.inspection.scores import score_maps
from scalednl.inspection.view_shares import PARTS, kept_by_view
from scalednl.lab.attention.source import Picture, Subject
from scalednl.lab.console import Advance, track
from scalednl.models.residual import ResidualNetwork

PerHead = Float[Tensor, "images heads"]
PerImage = Float[Tensor, "images"]


@dataclass(frozen=True)
class Look:
    """One picture, and what every block attended to in it."""

    picture: Picture
    predicted: str | None
    blocks: tuple[BlockAttention, ...]


@dataclass(frozen=True)
class BlockScores:
    """Scores of one block by name; of maps per image and head, of the branch per image."""

    maps: dict[str, PerHead]
    branch: dict[str, PerImage]


@torch.no_grad()
def look_at(subject: Subject) -> list[Look]:
    """Every picture through the network."""
    looks = []
    for picture in subject.pictures:
        with capture_attention(subject.model) as seen, _explained(subject.name):
            classes = subject.model(subject.input_of(picture))[0]
        if not torch.isfinite(classes).all():
            raise CommandError(
                f"{subject.name} computes numbers that are not finite: did it diverge?"
            )
        looks.append(Look(picture, subject.class_names[int(classes.argmax())], tuple(seen)))
    return looks


@torch.no_grad()
def score_subject(
    subject: Subject, model: ResidualNetwork | None = None, quiet: bool = True
) -> list[BlockScores]:
    """Every score of every block, image by image; of none where its maps are too large.

    `model` None is the subject's own; another one must have the same blocks.
    """
    model = subject.model if model is None else model
    what = subject.name if model is subject.model else f"{subject.name}, untrained"
    found: list[list[BlockScores]] = []
    with _progress(f"scoring {what}", subject.images, quiet) as advance:
        for images in subject.scored():
            with capture_attention(model) as seen, _explained(subject.name):
                model(images)
            found.append([score_block(block) for block in seen])
            advance(len(images))
    return [_joined(parts) for parts in zip(*found, strict=True)]


def score_block(seen: BlockAttention) -> BlockScores:
    """All scores of one block in its last call."""
    if seen.factors.is_large:
        return BlockScores({}, {})
    maps = score_maps(seen.factors)
    parts = PARTS if seen.block.view == "base" else ()
    return BlockScores(maps, {f"kept_by_{view}": kept_by_view(seen, view) for view in parts})


@torch.no_grad()
def ablation_errors(subject: Subject, quiet: bool = True) -> dict[str, float] | None:
    """Test error in percent, as trained and with the maps of all blocks replaced.

    See `analysis.ablations`. A prediction that is not finite is wrong. None where there are no
    labels, and where maps are too large to be formed.
    """
    if subject.tested is None or _maps_are_large(subject):
        return None
    names = ablations_of(subject.model)
    wrong = torch.zeros(len(names), dtype=torch.long)
    with _progress(f"testing {subject.name}", subject.tested.images, quiet) as advance:
        for batch in subject.tested.epoch(0):
            classes = ablated_classes(subject.model, batch.images, names)
            right = (classes.argmax(2) == batch.labels) & classes.isfinite().all(2)
            wrong += (~right).sum(1)
            advance(len(batch.images))
    errors = (100 * wrong.double() / subject.tested.images).tolist()
    return dict(zip(names, errors, strict=True))


def _maps_are_large(subject: Subject) -> bool:
    with capture_attention(subject.model) as seen:
        subject.model(subject.input_of(subject.pictures[0]))
    return any(block.factors.is_large for block in seen)


def _joined(parts: tuple[BlockScores, ...]) -> BlockScores:
    """Those of all batches; a score that one of them lacks is left out."""
    maps = {name: [part.maps.get(name) for part in parts] for name in parts[0].maps}
    branch = {name: [part.branch.get(name) for part in parts] for name in parts[0].branch}
    return BlockScores(_whole(maps), _whole(branch))


def _whole(lists: dict[str, list[Tensor | None]]) -> dict[str, Tensor]:
    found = {}
    for name, values in lists.items():
        tensors = [value for value in values if value is not None]
        if len(tensors) == len(values):
            found[name] = torch.cat(tensors)
    return found


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """What a block says about an image that is too small for it, as a sentence."""
    try:
        yield
    except ValueError as error:
        raise CommandError(f"{name} cannot take this image: {error}") from error


@contextmanager
def _silent() -> Iterator[Advance]:
    yield lambda _: None


def _progress(what: str, total: int, quiet: bool) -> AbstractContextManager[Callable[[int], None]]:
    return _silent() if quiet else track(what, total)
