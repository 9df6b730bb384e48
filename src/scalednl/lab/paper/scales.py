"""From a cell of the paper to an experiment: in full, or as a miniature that is named as such."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Literal

from scalednl.attentions import ATTENTIONS
from scalednl.lab.config import Experiment
from scalednl.lab.config.experiment import SCALED, Precision
from scalednl.lab.recipes import CIFAR, PLAIN, TINY, recipes
from scalednl.networks import network_shape
from scalednl.options import default_init

ScaleName = Literal["smoke", "lite", "paper"]


@dataclass(frozen=True)
class PaperSetting:
    """What a cell of the paper trains, in the paper's terms."""

    data: str
    """"cifar10", "cifar100" or "tiny-imagenet" """
    network: str
    attention: str
    """"plain" is the network without blocks"""
    heads: int = 1
    options: tuple[tuple[str, Any], ...] = ()
    """Other options of the blocks, where they are not the default"""
    embed_share: int = 1
    """The embedding has the block's channels divided by this"""
    position: bool | None = None
    code: str = ""
    """NAME=FINGERPRINT of an attention of a user's own"""

    @property
    def is_position_only(self) -> bool:
        """Whether its blocks can never learn: all four convolutions start at zero.

        Then softmax and scaled blocks add a constant per channel, which every later batch norm
        removes. The network computes what it would with the position encoding alone.
        """
        return ("init", 0.0) in self.options


@dataclass(frozen=True, eq=False)
class Scale:
    """How much of a recipe is run, and on what; equal only to itself."""

    name: ScaleName
    words: str
    """A description for readers"""
    seeds: int
    tiny_seeds: int = 3
    recipes: Mapping[str, str] = field(default_factory=dict)
    """The paper's data set -> the recipe used, {network} and {attention} open; others are left out
    """
    networks: Mapping[str, str] = field(default_factory=dict)
    """The paper's network -> the one used; others are left out"""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """The fields of a recipe that are changed to shorten it"""
    network_changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Used instead of `changes` for some of the paper's networks"""
    absent: frozenset[tuple[str, str]] = frozenset()
    """Pairs of the paper's data set and network that are left out although both are used"""
    norm_init: Mapping[str, float] = field(default_factory=dict)
    """Where the blocks' batch norm starts for some of the paper's networks, if not as the recipe"""
    precision: Precision = "fp32"

    @property
    def label(self) -> str:
        """Its name, and the precision if it is half."""
        return self.name if self.precision == "fp32" else f"{self.name}, {self.precision}"

    def experiment(self, setting: PaperSetting) -> Experiment | None:
        """The experiment of a setting at this scale; None where it has none."""
        found = _experiment(self, setting)
        if found is None or self.precision == "fp32":
            return found
        return replace(found, precision=self.precision)

    def seeds_of(self, setting: PaperSetting) -> int:
        """How many seeds a cell of it has."""
        return self.tiny_seeds if setting.data == TINY else self.seeds


@cache
def _experiment(scale: Scale, setting: PaperSetting) -> Experiment | None:
    template, network = scale.recipes.get(setting.data), scale.networks.get(setting.network)
    if template is None or network is None or (setting.data, setting.network) in scale.absent:
        return None
    if setting.is_position_only:
        setting = replace(setting, attention=PLAIN, heads=1, options=(), position=True, code="")
    recipe = _recipe(template, network, setting.attention)
    changes = dict(scale.network_changes.get(setting.network, scale.changes))
    position = setting.position
    if setting.attention == PLAIN:
        # Without blocks there is no encoding unless it is asked for.
        return replace(recipe, **changes, position=position or None)
    options = dict(setting.options)
    if "init" in options and options["init"] == default_init(setting.attention):
        options.pop("init", None)
    if setting.network in scale.norm_init:
        options.setdefault("norm_init", scale.norm_init[setting.network])
    if setting.embed_share > 1:
        channels = network_shape(network).widths[recipe.stage - 1]
        options["embed_channels"] = channels // setting.embed_share
    block = replace(recipe.block, heads=setting.heads, **options)
    code = (setting.code,) if setting.code else recipe.code
    position = None if position else position
    return replace(recipe, **changes, block=block, position=position, code=code)


def _recipe(template: str, network: str, attention: str) -> Experiment:
    """The recipe of an attention; of a user's own, whose code a reader need not have, from scaled.

    Recipes of all attentions differ in the attention alone.
    """
    name = template.format(network=network, attention=attention)
    if attention == PLAIN or ATTENTIONS[attention].form != "own":
        return recipes()[name]
    found = recipes()[template.format(network=network, attention=SCALED)]
    return replace(found, recipe=name, block=replace(found.block, attention=attention))


def run_name(experiment: Experiment) -> str:
    """A run's folder: the recipe, what is changed of it, and the seed."""
    recipe = recipes()[experiment.recipe]
    words = [] if experiment.model == recipe.model else [experiment.model]
    mine, usual = (
        {**asdict(one.block), "blocks": one.blocks, "stage": one.stage}
        for one in (experiment, recipe)
    )
    for name, value in mine.items():
        if value != usual[name]:
            words.append(f"{name}-{value}".lower())
    if experiment.position is not None:
        words.append("position-only" if experiment.position else "no-position")
    if (experiment.limit, experiment.epochs) != (recipe.limit, recipe.epochs):
        words.append(f"{experiment.limit or 'all'}x{experiment.epochs}")
    if experiment.weight_decay != recipe.weight_decay:
        words.append(f"wd{experiment.weight_decay:g}")
    words.append(f"seed{experiment.seed}")
    if experiment.precision != recipe.precision:
        words.append(experiment.precision)
    return "-".join([experiment.recipe, *words])


SCALES: dict[str, Scale] = {
    scale.name: scale
    for scale in (
        Scale(
            "smoke",
            "miniature on generated images: shows that the machinery works, says nothing about "
            "the paper's data",
            seeds=2,
            recipes={"cifar10": "pairs-{attention}"},
            networks={"preresnet56": "preresnet8"},
            changes={"limit": 4000},
        ),
        Scale(
            "lite",
            "real CIFAR in miniature: PreResNet-20 in place of PreResNet-56, 10,000 training "
            "images drawn by the seed, 10 epochs of one-cycle (peak rate 0.2, weight decay 5e-4, "
            "the blocks' batch norm starts at 1); PreResNet-32 is itself, on all 50,000 images, "
            "12 epochs of one-cycle (peak rate 0.2, weight decay 1e-4, batch norm starts at 0). "
            "So few steps measure how fast a network learns, not where it ends",
            seeds=6,
            recipes={data: f"{data}-{{network}}-{{attention}}-short" for data in CIFAR},
            networks={
                "preresnet56": "preresnet20",
                "preresnet32": "preresnet32",
                "preresnet8": "preresnet8",
                "preresnet20": "preresnet20",
                "preresnet32-short": "preresnet32",
            },
            changes={"limit": 10000, "epochs": 10, "test_last": 2},
            network_changes={
                "preresnet32": {"limit": None, "epochs": 12, "weight_decay": 1e-4, "test_last": 2}
            },
            norm_init={"preresnet32": 0.0},
            absent=frozenset({("cifar10", "preresnet32")}),
        ),
        Scale(
            "paper",
            "the paper's networks, data and schedule in full",
            seeds=10,
            recipes={
                **{data: f"{data}-{{network}}-{{attention}}" for data in CIFAR},
                TINY: "tiny-preresnet50-{attention}-finetune",
            },
            networks={
                name: name
                for name in (
                    *("preresnet32", "preresnet56", "preresnet110"),
                    *("wrn28_10", "preresnet50_tiny"),
                )
            },
        ),
    )
}


def scale_at(name: str, precision: Precision) -> Scale:
    """The scale of a name, with all its trainings in this precision."""
    return SCALES[name] if precision == "fp32" else _in_precision(SCALES[name], precision)


@cache
def _in_precision(scale: Scale, precision: Precision) -> Scale:
    return replace(scale, precision=precision)
