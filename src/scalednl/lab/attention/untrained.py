"""The network before its first step: what a score is without any training."""

from dataclasses import dataclass

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from scalednl.config import NonLocalConfig
from scalednl.errors import CommandError
from scalednl.lab.attention.source import Subject
from scalednl.lab.config import Experiment
from scalednl.lab.records.run import RunFolder
from scalednl.lab.training.setup import initial_model, load_pretrained
from scalednl.models.residual import ResidualNetwork


@dataclass(frozen=True)
class Untrained:
    """A network at its initialisation, and where that comes from."""

    model: ResidualNetwork
    seed: int
    start: str
    """What it is, in words"""


def untrained(subject: Subject) -> Untrained:
    """The initialisation of a network, ready for evaluation.

    Batch norm has the statistics of the scored images: with those it is created with, activations
    would grow from layer to layer as they never do in training.
    """
    config = subject.model.config
    assert config is not None
    run = RunFolder(subject.path)
    trained = run.read_config()[0] if run.exists() else None
    seed = trained.seed if trained else 0
    block = config.nonlocal_ or NonLocalConfig(blocks=0)
    experiment = Experiment(model=config.name, block=block, position=config.position, seed=seed)
    model = initial_model(experiment, config.num_classes)
    start_words = _start(model, trained)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    _set_statistics(model, subject)
    return Untrained(model, seed, start_words)


def _start(model: ResidualNetwork, trained: Experiment | None) -> str:
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


@torch.no_grad()
def _set_statistics(model: ResidualNetwork, subject: Subject) -> None:
    """Average batch norm's statistics over the batches of scored images."""
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    model.train()
    for images in subject.scored():
        model(images)
    model.eval()
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
