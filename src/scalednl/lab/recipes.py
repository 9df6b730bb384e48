"""Every training by name: DATA-NETWORK-ATTENTION[-variant].

    cifar10-preresnet56-scaled          164 epochs and 3 blocks of 4 heads, as printed
    cifar100-wrn28_10-softmax-wd5e4     weight decay 5e-4, which public WRN results use
    tiny-preresnet50-plain-pretrain     then tiny-preresnet50-scaled-finetune --weights RUN
    cifar10-preresnet20-scaled-short    not the paper's: one-cycle, 15 epochs, for processors
    pairs-scaled, recall-scaled         generated images, minutes on 2 cores

`plain` is the network without blocks. `custom` is the recipe of data and networks that are named
without one. Anything else is an override on the command line.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from scalednl.attentions import own_attentions, paper_attentions
from scalednl.config import BlockConfig
from scalednl.errors import UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.user_code import code_of
from scalednl.options import suggestion

PLAIN = "plain"
"""In the place of an attention: the network without blocks"""
CIFAR = ("cifar10", "cifar100")
TINY = "tiny-imagenet"
NETWORKS = ("preresnet20", "preresnet32", "preresnet56", "preresnet110", "wrn28_10")
SHORT_NETWORKS = ("preresnet8", "preresnet20", "preresnet32", "preresnet56")
UNPRINTED = {("cifar10", "wrn28_10"), *((data, "preresnet20") for data in CIFAR)}
"""Data sets and networks that no table of the paper has"""
OURS = "not the paper's"
PRETRAIN = "tiny-preresnet50-plain-pretrain"
"""The recipe of the networks that the finetune recipes start from"""


ONE_CYCLE: dict[str, Any] = {
    "epochs": 15,
    "lr": 0.2,
    "schedule": "one-cycle",
    "milestones": (),
    "weight_decay": 5e-4,
}
CUSTOM = "custom"
"""The recipe of `scalednl train --data NAME --model NETWORK`"""


def recipes() -> dict[str, Experiment]:
    """All recipes by name; those with an attention of a user's own while it is registered."""
    return _recipes(_attentions(), code_of(own_attentions()))


@cache
def _recipes(attentions: tuple[str, ...], _code: tuple[str, ...]) -> dict[str, Experiment]:
    return {recipe.recipe: recipe for recipe, _ in _described(attentions)}


def _attentions() -> tuple[str, ...]:
    """No blocks, the paper's attentions, and those of a user's own."""
    return (PLAIN, *paper_attentions(), *own_attentions())


def find_recipe(name: str) -> Experiment:
    """The recipe of a name; the error for an unknown name suggests similar ones."""
    known = recipes()
    if name not in known:
        hint = suggestion(name, known) or "; `scalednl train --list` lists all recipes"
        if not own_attentions():
            hint += "; those of an attention of your own need --code FILE.py"
        raise UsageError(f"no recipe is called {name!r}{hint}")
    return known[name]


def custom_recipe(data: str, network: str) -> Experiment:
    """Any network on any data: one-cycle over 15 epochs; new blocks begin as the identity.

    In few steps at a high rate, blocks that take part from the start can make training diverge.
    """
    return Experiment(CUSTOM, data, network, **_stack("scaled"), **{**ONE_CYCLE, "lr": 0.1})


def describe(recipe: Experiment) -> str:
    """A recipe's length, schedule and relation to the paper, in a line."""
    relations = {found.recipe: relation for found, relation in _described(_attentions())}
    images = "" if recipe.limit is None else f", {recipe.limit:,} images"
    return f"{recipe.epochs} epochs{images}, {recipe.schedule}, {relations[recipe.recipe]}"


def _described(attentions: tuple[str, ...]) -> Iterator[tuple[Experiment, str]]:
    """Every recipe with its relation to the paper."""
    for data in CIFAR:
        yield from _printed_schedule(data, attentions)
        yield from ((recipe, OURS) for recipe in _short(data, attentions))
    yield from ((recipe, "in the paper's tables") for recipe in _tiny(attentions))
    yield from ((recipe, OURS) for recipe in _generated(attentions))


def _stack(attention: str, blocks: int = 3, **options: float) -> dict[str, Any]:
    """Table 4's stack: 3 blocks of 4 heads, initialised as in the best column of Table 2."""
    if attention == PLAIN:
        return {"blocks": 0}
    return {"blocks": blocks, "block": BlockConfig(attention=attention, **options)}  # type: ignore[arg-type]


def _printed_schedule(data: str, attentions: tuple[str, ...]) -> Iterator[tuple[Experiment, str]]:
    """SGD 0.1, divided by 10 at epochs 81 and 122 of 164, batch 128, weight decay 1e-4."""
    for network in NETWORKS:
        is_printed = (data, network) not in UNPRINTED
        relation = "in" if is_printed else "the printed schedule; not in"
        for attention in attentions:
            name = f"{data}-{network}-{attention}"
            recipe = Experiment(name, data, network, **_stack(attention))
            yield recipe, f"{relation} the paper's tables"
            if network == "wrn28_10":
                other = replace(recipe, recipe=f"{name}-wd5e4", weight_decay=5e-4)
                yield other, "the printed schedule, but weight decay 5e-4"


def _short(data: str, attentions: tuple[str, ...]) -> Iterator[Experiment]:
    """One-cycle over 15 epochs; blocks take part from the first step: their norms start at 1."""
    for network in SHORT_NETWORKS:
        for attention in attentions:
            yield Experiment(
                f"{data}-{network}-{attention}-short",
                data,
                network,
                **_stack(attention, norm_init=1.0),
                **ONE_CYCLE,
            )


def _tiny(attentions: tuple[str, ...]) -> Iterator[Experiment]:
    """Two stages: 100 epochs without blocks, then 60 with them."""
    name, data, network = "tiny-preresnet50", TINY, "preresnet50_tiny"
    yield Experiment(
        PRETRAIN,
        data,
        network,
        **_stack(PLAIN),
        epochs=100,
        milestones=(30, 60, 90),
    )
    for attention in attentions:
        yield Experiment(
            f"{name}-{attention}-finetune",
            data,
            network,
            **_stack(attention),
            epochs=60,
            lr=0.01,
            milestones=(40,),
            finetune=True,
        )


def _generated(attentions: tuple[str, ...]) -> Iterator[Experiment]:
    """One block in a PreResNet-8; its norm starts at 1: with 0 the tasks are learnt far later.

    Small batches give enough steps in few images, and recalibrated statistics show the error of
    the weights instead of the lag of batch norm. At twice the rate, rounding decides whether scaled
    blocks solve `pairs` in time.
    """
    for data in ("pairs", "recall"):
        for attention in attentions:
            yield Experiment(
                f"{data}-{attention}",
                data,
                "preresnet8",
                **_stack(attention, blocks=1, norm_init=1.0),
                epochs=4,
                batch=32,
                lr=0.05,
                schedule="one-cycle",
                milestones=(),
                augment=False,
                recalibrate=20,
            )
