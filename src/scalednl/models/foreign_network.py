"""Networks from elsewhere, with non-local blocks: those of timm, and functions of a user's own.

A function takes `num_classes` and returns a module that maps (batch, 3, height, width) to
(batch, num_classes). Functions are registered by the program that has loaded them; a weights file
names one, and never brings one along.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType

from jaxtyping import Float
from torch import Tensor, nn

from scalednl.config import TIMM, ModelConfig, Placement, StackConfig, is_foreign
from scalednl.errors import described
from scalednl.models.feature_layout import NAMES, FeatureLayout
from scalednl.models.insert import insert_nonlocal
from scalednl.models.inserted import InsertedStack, attach
from scalednl.models.insertion_report import Insertion
from scalednl.models.registry import create_model
from scalednl.models.residual import ResidualNetwork
from scalednl.models.stack import stack_parts
from scalednl.models.suggest_places import suggested_places
from scalednl.options import suggestion

Builder = Callable[..., object]
Images = Float[Tensor, "batch 3 height width"]
CONFIG = "nonlocal_config"
"""The attribute of a network from elsewhere that holds its `ModelConfig`"""
_builders: dict[str, Builder] = {}


class UnknownNetworkError(ValueError):
    """A network of a function that is not registered."""

    def __init__(self, name: str) -> None:
        near = suggestion(name, _builders)
        super().__init__(f"the network {name} is a function of a file that is not loaded{near}")
        self.name = name


def register_builder(name: str, build: object) -> None:
    """Make a function known as `FILE:FUNCTION`; one that takes no `num_classes` is refused."""
    if not is_foreign(name) or name.startswith(TIMM):
        raise ValueError(f"{name!r} is not FILE:FUNCTION")
    if not callable(build) or not takes_num_classes(build):
        raise ValueError(f"{name} must be a function that can be called as f(num_classes=10)")
    _builders[name] = build


def takes_num_classes(build: object) -> bool:
    """Whether something can be called with `num_classes` alone."""
    try:
        inspect.signature(build).bind(num_classes=1)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def make_foreign(name: str, num_classes: int) -> nn.Module:
    """The network of `timm:NAME` or `FILE:FUNCTION`, without blocks and never pretrained."""
    build = _builder(name)
    try:
        network = build(num_classes=num_classes)
    except Exception as error:  # any network, any error
        raise ValueError(f"{name} cannot be made: {described(error)}") from error
    if not isinstance(network, nn.Module):
        raise ValueError(f"{name} must return a torch.nn.Module, got {type(network).__name__}")
    return network


def _builder(name: str) -> Builder:
    if name.startswith(TIMM):
        return _timm_builder(name.removeprefix(TIMM))
    if name not in _builders:
        raise UnknownNetworkError(name)
    return _builders[name]


def _timm_builder(name: str) -> Builder:
    """timm's own constructor; only names in its list, because others may be addresses."""
    timm = _import_timm(name)
    base, dot, tag = name.partition(".")
    known: list[str] = timm.list_models()
    if base not in known:
        hint = suggestion(base, known) or "; timm.list_models() lists all"
        raise ValueError(f"timm has no network called {name!r}{hint}")
    if dot and name not in (tagged := timm.list_models(f"{base}.*", include_tags=True)):
        hint = f": use one of {', '.join(tagged)}" if tagged else f": use {base}"
        raise ValueError(f"timm's {base} has no tag {tag!r}{hint}")
    return partial(timm.create_model, name, pretrained=False)


def _import_timm(name: str) -> ModuleType:
    try:
        import timm
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{TIMM}{name} needs {error.name}, which is not installed: pip install timm"
        ) from error
    except Exception as error:  # such as a torchvision for another torch
        raise ValueError(
            f"{TIMM}{name} needs timm, which cannot be imported here: {described(error)}"
        ) from error
    found: ModuleType = timm
    return found


def insert_stacks(
    network: nn.Module,
    config: ModelConfig,
    at: Sequence[str],
    images: Images,
) -> None:
    """Put the stacks of a config behind the modules of these paths, in place, and check them.

    `config` then says how to make the network again, placements included.
    """
    stack, position = config.blocks or StackConfig(count=0), bool(config.position)
    insertions: tuple[Insertion, ...] = ()
    if stack.count or position:
        if not at:
            raise ValueError(
                f"{config.name} needs the module behind which its blocks go"
                f"{suggested_places(network, images)}"
            )
        _, report = insert_nonlocal(
            *(network, list(at), stack.count),
            block=stack.block,
            position=position,
            example=images,
        )
        insertions = report.insertions
    places = tuple(_placement(insertion) for insertion in insertions)
    network.__dict__[CONFIG] = replace(config, placements=places)


def _placement(insertion: Insertion) -> Placement:
    axes = {words: axes for axes, words in NAMES.items()}[insertion.layout]
    where = insertion.weights.removeprefix(f"{insertion.path}.")
    return Placement(insertion.path, where, insertion.channels, *axes, insertion.prefix)


def make_network(config: ModelConfig) -> nn.Module:
    """The network of a config: built in, or from elsewhere with its stacks in their places.

    No forward pass is needed. After the same seed it has the weights of the network that
    `insert_stacks` was given and completed.
    """
    if not is_foreign(config.name):
        stage = config.name, config.num_classes, config.blocks, config.position
        return create_model(*stage, config.dropout)
    return place_stacks(make_foreign(config.name, config.num_classes), config)


def place_stacks(network: nn.Module, config: ModelConfig) -> nn.Module:
    """A network from elsewhere with new stacks where its config places them."""
    stack, position = config.blocks or StackConfig(count=0), bool(config.position)
    for place in config.placements:
        parts = stack_parts(place.channels, stack.block, stack.count, position, place.dims)
        inserted = InsertedStack(parts)
        inserted.layout = FeatureLayout(place.dims, place.channel_axis, place.prefix)
        try:
            attach(network.get_submodule(place.path), inserted, place.where, place.path)
        except (AttributeError, KeyError) as error:
            raise ValueError(
                f"{config.name} has no place for blocks at {place.path!r}: {error}"
            ) from error
    network.__dict__[CONFIG] = config
    return network


def config_of(model: nn.Module) -> ModelConfig | None:
    """How to make a network again; None where it is not known."""
    found = model.__dict__.get(CONFIG)
    if found is None and isinstance(model, ResidualNetwork):
        found = model.config
    return found if isinstance(found, ModelConfig) else None
