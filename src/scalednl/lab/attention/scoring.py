"""A network run over its images: what it attends to in each picture, and its blocks' scores."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from scalednl.errors import CommandError
from scalednl.inspection.ablations import ablated_classes, ablations_of
from scalednl.inspection.capture import BlockAttention, capture_attention
from scalednl.inspection.scores import score_maps
from scalednl.inspection.view_shares import PARTS, kept_by_view
from scalednl.lab.attention.picture import Picture
from scalednl.lab.attention.source import NetworkSource
from scalednl.lab.attention.untrained import Untrained, untrained
from scalednl.lab.console import Advance, track
from scalednl.lab.records.attention import ClassProbability

CLASSES = 5
"""Classes of a picture that are shown"""
PerHead = Float[Tensor, "images heads"]
PerImage = Float[Tensor, "images"]


@dataclass(frozen=True)
class Observation:
    """One picture, and what every block attended to in it."""

    picture: Picture
    classes: tuple[ClassProbability, ...]
    """The most probable classes, the first one first"""
    blocks: tuple[BlockAttention, ...]

    @property
    def predicted(self) -> str:
        """The most probable class."""
        return self.classes[0].name


@dataclass(frozen=True)
class BlockScores:
    """Scores of one block by name; of maps per image and head, of the branch per image."""

    maps: dict[str, PerHead]
    branch: dict[str, PerImage]


@torch.no_grad()
def observe(source: NetworkSource) -> list[Observation]:
    """Every picture through the network."""
    found = []
    for picture in source.pictures:
        with capture_attention(source.model) as seen, _explained(source.name):
            classes = source.model(source.input_of(picture))[0]
        if not torch.isfinite(classes).all():
            raise _not_finite(source.name)
        found.append(Observation(picture, _most_probable(source, classes), tuple(seen)))
    return found


def _most_probable(
    source: NetworkSource, logits: Float[Tensor, "classes"]
) -> tuple[ClassProbability, ...]:
    shares, classes = logits.softmax(0).topk(min(CLASSES, len(logits)))
    return tuple(
        ClassProbability(source.class_names[number], share)
        for number, share in zip(classes.tolist(), shares.tolist(), strict=True)
    )


@dataclass(frozen=True)
class Scores:
    """All scores of a network, before and after training."""

    trained: list[BlockScores]
    untrained: list[BlockScores]
    start: Untrained
    ablation_error_pct: dict[str, float]
    """Test error as trained and with the maps of all blocks replaced; empty without labels, and
    where maps are too large to be formed"""


def score(source: NetworkSource, quiet: bool = True) -> Scores:
    """Score a network and its initialisation, and test it with its maps replaced."""
    start = untrained(source)
    return Scores(
        score_blocks(source, source.model, source.name, quiet),
        score_blocks(source, start.model, f"{source.name} (untrained)", quiet),
        start,
        ablation_errors(source, quiet),
    )


@torch.no_grad()
def score_blocks(
    source: NetworkSource, model: nn.Module, name: str, quiet: bool = True
) -> list[BlockScores]:
    """Every score of every block, image by image; of none where its maps are too large."""
    found: list[list[BlockScores]] = []
    with _progress(f"scoring {name}", source.images, quiet) as advance:
        for images in source.scored():
            with capture_attention(model) as seen, _explained(name):
                model(images)
            found.append([score_block(block) for block in seen])
            advance(len(images))
    joined = [_joined(parts) for parts in zip(*found, strict=True)]
    if not all(
        v.isfinite().all() for one in joined for v in (*one.maps.values(), *one.branch.values())
    ):
        raise _not_finite(name)
    return joined


def score_block(seen: BlockAttention) -> BlockScores:
    """All scores of one block in its last call."""
    if seen.is_large:
        return BlockScores({}, {})
    maps = _concatenated([score_maps(part.factors) for part in seen.parts()])
    views = PARTS if seen.block.view == "base" else ()
    return BlockScores(maps, {f"kept_by_{view}": kept_by_view(seen, view) for view in views})


@torch.no_grad()
def ablation_errors(source: NetworkSource, quiet: bool = True) -> dict[str, float]:
    """Test errors of `inspection.ablations`; a prediction that is not finite is wrong."""
    if source.tested is None or _maps_are_large(source):
        return {}
    names = ablations_of(source.model)
    wrong = torch.zeros(len(names), dtype=torch.long)
    with _progress(f"testing {source.name}", source.tested.images, quiet) as advance:
        for batch in source.tested.epoch(0):
            classes = ablated_classes(source.model, batch.images, names)
            right = (classes.argmax(2) == batch.labels) & classes.isfinite().all(2)
            wrong += (~right).sum(1)
            advance(len(batch.images))
    errors = (100 * wrong.double() / source.tested.images).tolist()
    return dict(zip(names, errors, strict=True))


def _maps_are_large(source: NetworkSource) -> bool:
    with capture_attention(source.model) as seen:
        source.model(source.input_of(source.pictures[0]))
    return any(block.is_large for block in seen)


def _joined(parts: tuple[BlockScores, ...]) -> BlockScores:
    """The scores of all batches; a score that one of them lacks is left out."""
    maps, branches = [part.maps for part in parts], [part.branch for part in parts]
    return BlockScores(_concatenated(maps), _concatenated(branches))


def _concatenated(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    names = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: torch.cat([part[name] for part in parts]) for name in names}


def _not_finite(name: str) -> CommandError:
    return CommandError(f"{name} computes numbers that are not finite: did it diverge?")


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn a block's error about an image that is too small for it into a sentence."""
    try:
        yield
    except ValueError as error:
        raise CommandError(f"{name} cannot take this image: {error}") from error


def _progress(what: str, total: int, quiet: bool) -> AbstractContextManager[Advance]:
    return nullcontext(lambda _: None) if quiet else track(what, total)
