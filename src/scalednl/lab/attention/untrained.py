"""The network before its first step, as a baseline of the scores."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from scalednl.errors import CommandError, UsageError, first_line
from scalednl.lab.attention.source import SMALLEST, NetworkSource
from scalednl.lab.config import Experiment
from scalednl.lab.training.setup import initial_numbers, load_pretrained
from scalednl.lab.training.trained import source_folder
from scalednl.models.foreign_network import config_of, make_network


@dataclass(frozen=True)
class Untrained:
    """A network at its initialisation, and where that comes from."""

    model: nn.Module
    seed: int
    start: str
    """A description for readers"""


def untrained(source: NetworkSource) -> Untrained:
    """The initialisation of a network, ready for evaluation.

    Batch norm has the statistics of the scored images: with its initial statistics, activations
    would grow from layer to layer.
    """
    config = config_of(source.model)
    assert config is not None
    run = source_folder(source.path)
    trained = run.read_config()[0] if run.exists() else None
    seed = trained.seed if trained else 0
    with initial_numbers(seed):
        model = make_network(config)
    start_words = _start(model, trained)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        update_bn(source.scored(), model.eval())
    except ValueError as error:
        # A map of one pixel has no variance.
        why = f"the untrained network has no statistics of these images ({first_line(error)})"
        smallest = min(min(picture.pixels.shape[:2]) for picture in source.pictures)
        if source.batches is None and smallest < SMALLEST:
            raise UsageError(f"{why}: they are too small, add --resize {SMALLEST}") from error
        raise CommandError(why) from error
    return Untrained(model, seed, start_words)


def _start(model: nn.Module, trained: Experiment | None) -> str:
    """Load the backbone that a fine-tuned run started from, and describe the network."""
    if trained is None:
        return "initialised with seed 0, because a weights file does not contain its seed"
    if not trained.finetune:
        return f"initialised with the run's seed {trained.seed}"
    try:
        load_pretrained(model, trained)
    except CommandError:
        return (
            f"initialised with the run's seed {trained.seed}; the pretrained backbone that the run "
            "started from was not found"
        )
    return f"the pretrained backbone, with blocks initialised with the run's seed {trained.seed}"
