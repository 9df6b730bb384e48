"""The model card of a published network: every number in it comes from the records beside it."""

import shlex
from dataclasses import replace
from pathlib import Path

from scalednl.errors import UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.config.data_sets import DATA_SETS
from scalednl.lab.console import counted, duration, short_bytes
from scalednl.lab.recipes import describe, recipes
from scalednl.lab.records.origin import Origin
from scalednl.lab.records.run import Result, RunFolder, RunSetup
from scalednl.lab.records.runs import RunRecord, read_run
from scalednl.lab.report.aggregate import describe_block
from scalednl.lab.report.formatting import data_words, network_words
from scalednl.lab.report.markdown import markdown_table
from scalednl.lab.sweep.commands import changed_options

SOURCES = {
    "cifar10": "Krizhevsky, *Learning multiple layers of features from tiny images*, 2009",
    "cifar100": "Krizhevsky, *Learning multiple layers of features from tiny images*, 2009",
    "tiny-imagenet": "a subset of ImageNet (Deng et al., CVPR 2009)",
}
CARD = """# {name}

{what}, trained on {data}. Test error **{error}** after the last epoch (one run, seed {seed}).

```python
import torch, scalednl

model = scalednl.load_model("{name}")  # in evaluation mode
mean, std = torch.tensor({mean}), torch.tensor({std})
pixels = torch.zeros(1, 3, {height}, {width})  # RGB, 0 to 255
scores = model((pixels / 255 - mean[:, None, None]) / std[:, None, None])
```

{facts}

## Intended use

Examples, attention maps, tests of export and deployment, and a start for fine-tuning. It is a small
network for small pictures, and not meant for decisions about people or safety.

## Limits

- It knows the {classes} classes below and puts every picture into one of them.
- {worst}
- It was trained with pictures of {height} x {width} pixels. On other sizes errors rise
  (docs/masks-and-keys.md of the project has figures for smaller trainings).
- It is a single run. A difference between two published networks says nothing about their blocks:
  docs/results.md of the project compares blocks over several seeds.
- Neither robustness nor bias was measured.

## Training

{training}

## Licence

The weights have the licence of scalednl, Apache-2.0. {images}

## Classes, in the order of the outputs

{names}
"""


def published_run(folder: Path) -> tuple[RunRecord, Experiment, Result]:
    """The records of a run that has finished; a UsageError if it has not."""
    if not RunFolder(folder).exists():
        raise UsageError(f"{folder} is not a run directory")
    found = read_run(folder)
    if found.state != "finished" or found.experiment is None or found.result is None:
        note = f": {found.note}" if found.note else ""
        raise UsageError(
            f"{folder} is {found.state}{note}; only a run that has finished is published"
        )
    return found, found.experiment, found.result


def card(folder: Path, name: str) -> str:
    """The text of README.md for the records in a folder, published under a name."""
    found, experiment, result = published_run(folder)
    facts = DATA_SETS[experiment.data]
    height, width = input_size(experiment)
    return CARD.format(
        name=name,
        what=what(experiment),
        data=data_words(experiment.data),
        error=f"{result.test_error_pct.last:.2f} %",
        seed=experiment.seed,
        mean=facts.mean,
        std=facts.std,
        height=height,
        width=width,
        facts=markdown_table(["", ""], _facts(folder, found.setup, result)),
        classes=len(found.setup.class_names),
        worst=_worst(result),
        training=markdown_table(["", ""], _training(experiment, found.setup, result)),
        images=_images(experiment),
        names=", ".join(found.setup.class_names),
    )


def what(experiment: Experiment) -> str:
    """The network and its blocks in words."""
    return f"{network_words(experiment.model)} ({describe_block(experiment)})"


def input_size(experiment: Experiment) -> tuple[int, int]:
    """Height and width of the images that the network was trained on."""
    generated = experiment.generated
    side = DATA_SETS[experiment.data].input_side
    return (side, side) if generated is None else (generated.height, generated.width)


def _facts(folder: Path, setup: RunSetup, result: Result) -> list[list[str]]:
    errors = result.test_error_pct
    best = "" if errors.best_epoch is None else f" (epoch {errors.best_epoch + 1})"
    return [
        ["parameters", f"{result.parameters:,}"],
        ["test images", f"{setup.test_images:,}"],
        ["test error, last epoch", f"{errors.last:.2f} %"],
        ["test error, best tested epoch", f"{errors.best:.2f} %{best}, chosen on the test images"],
        ["test loss", "" if result.test_loss is None else f"{result.test_loss:.4f}"],
        ["file", f"weights.safetensors, {short_bytes(RunFolder(folder).weights.stat().st_size)}"],
        ["SHA-256", f"{result.weights_sha256}"],
    ]


def _training(experiment: Experiment, setup: RunSetup, result: Result) -> list[list[str]]:
    origin: Origin = result.origin
    schedule: str = experiment.schedule
    if experiment.milestones:
        schedule += f", divided by 10 after {', '.join(map(str, experiment.milestones))} epochs"
    packages = ", ".join(f"{name} {version}" for name, version in origin.packages.items())
    started = [["started from", f"{experiment.weights}"]] if experiment.finetune else []
    return [
        ["training images", f"{setup.train_images:,}"],
        *recipe_rows(experiment),
        ["command", origin.command],
        ["seed", str(experiment.seed)],
        *started,
        ["epochs", f"{result.epochs}, {result.steps:,} steps of {experiment.batch} images"],
        ["learning rate", f"{experiment.lr:g}, {schedule}"],
        ["momentum, weight decay", f"{experiment.momentum:g}, {experiment.weight_decay:g}"],
        ["precision", experiment.precision],
        ["time", f"{duration(result.seconds)} on {origin.machine}, {_threads(setup)}"],
        ["commit", origin.commit or "not recorded"],
        ["versions", f"scalednl {origin.scalednl}, Python {origin.python}, {packages}"],
        ["date", origin.date],
    ]


def recipe_rows(experiment: Experiment) -> list[list[str]]:
    """The recipe and its relation to the paper, and the options that differ from it."""
    known = recipes().get(experiment.recipe)
    if known is None:
        return [["recipe", experiment.recipe]]
    changed = changed_from_recipe(experiment)
    return [
        ["recipe", f"{experiment.recipe}: {describe(known)}"],
        *([["options that differ from the recipe", changed]] if changed else []),
    ]


def changed_from_recipe(experiment: Experiment) -> str:
    """The options that differ from the recipe, but for the seed."""
    known = recipes().get(experiment.recipe)
    if known is None:
        return ""
    return shlex.join(changed_options(replace(experiment, seed=known.seed), known))


def _threads(setup: RunSetup) -> str:
    return (
        "its own number of threads" if setup.threads is None else counted(setup.threads, "thread")
    )


def _worst(result: Result) -> str:
    known = {name: e for name, e in (result.class_error_pct or {}).items() if e is not None}
    if not known:
        return "Errors of single classes were not recorded."
    worst, best = max(known, key=lambda name: known[name]), min(known, key=lambda name: known[name])
    return (
        f"Classes differ: {known[best]:.1f} % of {best} are wrong, and {known[worst]:.1f} % of "
        f"{worst}."
    )


def _images(experiment: Experiment) -> str:
    if experiment.generated is not None:
        return "The training images were generated by scalednl."
    return (
        f"The training images are not part of it: {data_words(experiment.data)} "
        f"({SOURCES[experiment.data]}) was collected from the web, and its pictures belong to "
        "others. Check whether that allows your use."
    )
