"""Every training of the paper by name: DATA-NETWORK-ATTENTION[-variant].

    cifar10-preresnet56-scaled          164 epochs and 3 blocks of 4 heads, as printed
    cifar100-wrn28_10-softmax-wd5e4     weight decay 5e-4, which public WRN results use
    tiny-preresnet50-plain-pretrain     then tiny-preresnet50-scaled-finetune --weights RUN
    cifar10-preresnet20-scaled-short    not the paper's: one-cycle, 15 epochs, for processors
    pairs-scaled, recall-scaled         generated images, one to three minutes on 2 cores

`plain` is the network without blocks. Anything else is an override on the command line.
"""

from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from functools import cache

from scalednl.config import NonLocalConfig
from scalednl.errors import UsageError
from scalednl.lab.config import Experiment

ATTENTIONS = ("plain", "softmax", "scaled")
CIFAR_NETWORKS = ("preresnet20", "preresnet32", "preresnet56", "preresnet110", "wrn28_10")
PRINTED = ("preresnet32", "preresnet56", "preresnet110", "preresnet50_tiny")
"""Networks of the paper's tables; WRN-28-10 is there for CIFAR-100 alone"""
SHORT_NETWORKS = ("preresnet8", "preresnet20", "preresnet32", "preresnet56")


@cache
def recipes() -> dict[str, Experiment]:
    """All recipes by name."""
    return {recipe.recipe: recipe for recipe in (*_cifar(), *_tiny(), *_generated())}


def find_recipe(name: str) -> Experiment:
    """The recipe of a name; a near miss is told what it may have meant."""
    known = recipes()
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "`scalednl train --list` names them"
    raise UsageError(f"no recipe is called {name!r}: {hint}")


def describe(recipe: Experiment) -> str:
    """What a recipe is, in a line."""
    images = "" if recipe.limit is None else f", {recipe.limit:,} images"
    return f"{recipe.epochs} epochs{images}, {recipe.schedule}, {_standing(recipe)}"


def _standing(recipe: Experiment) -> str:
    """What it has to do with the paper."""
    if recipe.generated is not None or recipe.recipe.endswith("-short"):
        return "not the paper's"
    if recipe.recipe.endswith("-wd5e4"):
        return "the printed schedule, but weight decay 5e-4"
    printed = recipe.model in PRINTED or (recipe.data, recipe.model) == ("cifar100", "wrn28_10")
    return "in the paper's tables" if printed else "the printed schedule; not in the paper's tables"


def _block(attention: str, **options: float) -> NonLocalConfig:
    """Table 4's stack: 3 blocks of 4 heads, initialised as in the best column of Table 2."""
    if attention == "plain":
        return NonLocalConfig(blocks=0)
    return replace(NonLocalConfig(attention=attention), **options)  # type: ignore[arg-type]


def _cifar() -> Iterator[Experiment]:
    """SGD 0.1, divided by 10 at epochs 81 and 122 of 164, batch 128, weight decay 1e-4."""
    for data in ("cifar10", "cifar100"):
        for network in CIFAR_NETWORKS:
            for attention in ATTENTIONS:
                name = f"{data}-{network}-{attention}"
                paper = Experiment(name, data, network, _block(attention))
                yield paper
                if network.startswith("wrn"):
                    yield replace(paper, recipe=f"{name}-wd5e4", weight_decay=5e-4)
        for network in SHORT_NETWORKS:
            for attention in ATTENTIONS:
                # A new network learns faster when its blocks take part from the start.
                block = (
                    _block(attention, norm_init=1.0) if attention != "plain" else _block("plain")
                )
                yield Experiment(
                    f"{data}-{network}-{attention}-short",
                    data,
                    network,
                    block,
                    epochs=15,
                    lr=0.2,
                    schedule="one-cycle",
                    milestones=(),
                    weight_decay=5e-4,
                )


def _tiny() -> Iterator[Experiment]:
    """Two stages: 100 epochs without blocks, then 60 with them."""
    name, data, network = "tiny-preresnet50", "tiny-imagenet", "preresnet50_tiny"
    yield Experiment(
        f"{name}-plain-pretrain",
        data,
        network,
        _block("plain"),
        epochs=100,
        milestones=(30, 60, 90),
    )
    for attention in ATTENTIONS:
        yield Experiment(
            f"{name}-{attention}-finetune",
            data,
            network,
            _block(attention),
            epochs=60,
            lr=0.01,
            milestones=(40,),
            finetune=True,
        )


def _generated() -> Iterator[Experiment]:
    """One block in a PreResNet-8; its norm starts at 1: with 0 the tasks are learnt far later.

    Small batches give enough steps in few images, and recalibrated statistics show the error of
    the weights instead of the lag of batch norm.
    """
    for data, rate in (("pairs", 0.1), ("recall", 0.05)):
        for attention in ATTENTIONS:
            yield Experiment(
                f"{data}-{attention}",
                data,
                "preresnet8",
                _block(attention, blocks=1, norm_init=1.0),
                epochs=4,
                batch=32,
                lr=rate,
                schedule="one-cycle",
                milestones=(),
                augment=False,
                recalibrate=20,
            )
