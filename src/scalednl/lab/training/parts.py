"""What a trainer is made of, prepared in one way for trainings and for their plans."""

from pathlib import Path
from typing import NamedTuple

from lightning_fabric import Fabric
from torch import nn

from scalednl.lab.allocator import keep_memory
from scalednl.lab.config import Experiment, RunSettings
from scalednl.lab.data import ImageData
from scalednl.lab.machine import use_threads
from scalednl.lab.training.devices import make_fabric
from scalednl.lab.training.setup import (
    check_batch,
    example_images,
    experiment_data,
    initial_model,
    load_pretrained,
    try_step,
)


class Parts(NamedTuple):
    """Data, network and devices."""

    data: ImageData
    network: nn.Module
    fabric: Fabric


def prepare(
    experiment: Experiment, settings: RunSettings, root: Path | None, *, pretrained: bool
) -> Parts:
    """The parts of an experiment; what cannot work fails here, before anything is written.

    `pretrained` loads the weights that fine-tuning starts from.
    """
    use_threads(settings.threads)
    keep_memory(settings.keep_memory)
    data = experiment_data(experiment, root)
    images = example_images(experiment, data)
    network = initial_model(experiment, len(data.class_names), images)
    if pretrained and experiment.finetune:
        load_pretrained(network, experiment)
    fabric = make_fabric(settings, experiment.precision)
    check_batch(experiment, data, fabric.world_size)
    try_step(network, experiment, data, fabric.world_size)
    return Parts(data, network, fabric)
