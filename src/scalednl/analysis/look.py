"""A network run over its images: scores of every block, and what it saw of each picture."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.analysis.capture import BlockAttention, capture_attention
from scalednl.analysis.kept import PARTS, kept_by_view, with_view
from scalednl.analysis.scores import score_maps
from scalednl.analysis.subject import Picture, Subject
from scalednl.errors import CommandError
from scalednl.models.residual import ResidualNetwork
from scalednl.ops.views import lengths
from scalednl.progress import Advance, track

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
def score_subject(subject: Subject, quiet: bool = True) -> list[BlockScores]:
    """Every score of every block, image by image; of none where its maps are too large."""
    found: list[list[BlockScores]] = []
    with _progress(f"scoring {subject.name}", subject.images, quiet) as advance:
        for images, _ in subject.scored():
            with capture_attention(subject.model) as seen, _explained(subject.name):
                subject.model(images)
            found.append([score_block(block) for block in seen])
            advance(len(images))
    return [_joined(parts) for parts in zip(*found, strict=True)]


def score_block(seen: BlockAttention) -> BlockScores:
    """All scores of one block in its last call."""
    if seen.factors.is_large:
        return BlockScores({}, {})
    maps = score_maps(seen.factors, lengths(seen.phi).squeeze(-1))
    parts = PARTS if seen.block.view == "base" else ()
    return BlockScores(maps, {f"kept_by_{view}": kept_by_view(seen, view) for view in parts})


@torch.no_grad()
def error_by_view(subject: Subject) -> dict[str, float] | None:
    """Error in percent on the images scored, as trained and with every block's view switched.

    None where there are no labels, or where the blocks have a view already.
    """
    config = subject.model.config
    assert config is not None
    trained_on_all = config.nonlocal_ is not None and config.nonlocal_.view == "base"
    if subject.batches is None or not trained_on_all:
        return None
    networks = {"base": subject.model, **{view: with_view(subject.model, view) for view in PARTS}}
    return {view: _error_pct(network, subject) for view, network in networks.items()}


def _error_pct(network: ResidualNetwork, subject: Subject) -> float:
    wrong = 0
    for images, labels in subject.scored():
        assert labels is not None
        wrong += int((network(images).argmax(1) != labels).sum())
    return 100 * wrong / subject.images


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
