"""A network in one file: safetensors weights, and in their header how to make the network again."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from scalednl.blocks import NonLocalBlock
from scalednl.blocks.checks import FIXED
from scalednl.config import TIMM, ModelConfig, is_foreign
from scalednl.files import check_target, replacing
from scalednl.models.foreign_network import (
    config_of,
    make_foreign,
    make_network,
    place_stacks,
)
from scalednl.models.published import FILE, find_weights
from scalednl.networks import network_shape
from scalednl.safetensors_file import open_tensors, save_tensors

KEY = "scalednl"
FORMAT = 1
SMALLEST_BLOCK = 3000
"""Numbers in the smallest residual block are more than these"""
LONGEST = 300
"""Letters of an error that may quote a file"""
UNUSABLE = (KeyError, TypeError, ValueError, RuntimeError, OverflowError, AttributeError)
"""What a header of any content leads to; RecursionError is a RuntimeError"""

IN_TRAINING = {"momentum", "inplace", "p", "training"}
"""Options of modules that change nothing in evaluation"""
PLAIN = (bool, int, float, str, tuple)


def save_model(model: nn.Module, path: str | Path) -> None:
    """Write a network of `create_model` to a file, whole or not at all.

    Networks from elsewhere that `scalednl train` has made are described by their name. Tensors keep
    their dtypes; `order` and `memory` of blocks are those that the network was made with.
    """
    config = config_of(model)
    if config is None:
        raise ValueError(
            f"{type(model).__name__} was not made by create_model, so a file could not say how to "
            "make it again: save its state_dict instead"
        )
    path = Path(path)
    check_target(path)
    _check_unchanged(config, model)
    header = json.dumps({"format": FORMAT, "model": config.as_dict()})
    with replacing(path) as temporary:
        save_tensors(model.state_dict(), temporary, {KEY: header})


def _check_unchanged(config: ModelConfig, model: nn.Module) -> None:
    """Raise where a network is no longer the one that its config makes.

    A function of the user's own is not called for this.
    """
    if is_foreign(config.name) and not config.name.startswith(TIMM):
        return
    for name, found, expected in _changes(model, _skeleton(config)):
        raise ValueError(
            f"the network is no longer the {config.name} that create_model made, so that a file "
            f"could not say how to make it again: {name} is {found} instead of {expected}; save "
            "its state_dict instead"
        )


def _changes(model: nn.Module, made: nn.Module) -> Iterator[tuple[str, object, object]]:
    """Tensors, modules and options that differ from those of the network as it was made."""
    found, expected = (
        {name: tuple(value.shape) for name, value in one.state_dict().items()}
        for one in (model, made)
    )
    for name in sorted(expected.keys() | found.keys()):
        if found.get(name) != expected.get(name):
            yield name, found.get(name, "missing"), expected.get(name, "missing")
    # The same tensors may be used otherwise.
    modules, as_made = dict(model.named_modules()), dict(made.named_modules())
    for path in sorted(as_made.keys() | modules.keys()):
        module, other = modules.get(path), as_made.get(path)
        if module is None or other is None or not _is_alike(module, other):
            yield path, _kind(module), _kind(other)
            continue
        parts, usual = list(module._modules), list(other._modules)
        if isinstance(other, nn.Sequential) and parts != usual and {*parts} == {*usual}:
            yield path, f"in the order {', '.join(parts)}", f"in the order {', '.join(usual)}"
        for option in _options(other):
            now, before = getattr(module, option, None), getattr(other, option, None)
            if now != before:
                yield f"{path}.{option}", now, before


def _options(made: nn.Module) -> Sequence[str]:
    """What a module computes with beside its tensors."""
    if isinstance(made, NonLocalBlock):
        return *FIXED, "pool_kernel"
    names = {"eps", *getattr(made, "__constants__", ())}
    if type(made).__module__.startswith(f"{__name__.partition('.')[0]}."):
        names |= {name for name in vars(made) if not name.startswith("_")}
    names -= IN_TRAINING
    return sorted(name for name in names if isinstance(getattr(made, name, None), PLAIN))


def _is_alike(module: nn.Module, made: nn.Module) -> bool:
    """Whether one module can stand for another: SyncBatchNorm, or a class that FSDP derived."""
    if isinstance(module, _BatchNorm) and isinstance(made, _BatchNorm):
        return True
    return isinstance(module, type(made)) and type(module).forward is type(made).forward


def _kind(module: nn.Module | None) -> str:
    return "missing" if module is None else f"a {type(module).__name__}"


def load_model(path: str | Path, device: str | torch.device = "cpu") -> nn.Module:
    """The network in a file of `save_model`, in evaluation mode.

    `path` may also be a run directory, or the name of a trained network that comes with the package
    (`list_weights`); a path that exists wins over a name. The network is made only if the tensors
    in the file fit what the header describes: a network of timm by timm, and one of a user's own
    only if its function is registered.
    """
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device={device!r} is unknown: {_short(error)}") from None
    weights, config = read_weights(path)
    try:
        model = make_network(config)
        # Dtypes are those of the file; the tensors are copies, because the file is mapped. A number
        # of pixels in older files is an integer, which a running mean must not become.
        for name, value in model.state_dict(keep_vars=True).items():
            if value.is_floating_point() == weights[name].is_floating_point():
                value.data = value.data.to(weights[name].dtype)
        model.load_state_dict(weights)
    except UNUSABLE as error:
        raise ValueError(f"{path} cannot be loaded: {_short(error)}") from error
    try:
        return model.to(place).eval()
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={device!r} cannot be used: {_short(error)}") from error


def read_weights(path: str | Path) -> tuple[dict[str, Tensor], ModelConfig]:
    """The tensors in a file of `save_model`, and the network that they belong to."""
    path = find_weights(path)
    if path.is_dir():
        path /= FILE
    if not path.is_file():
        raise ValueError(f"{path} is not a file: load_model takes files of save_model")
    with open_tensors(path) as file:
        header = (file.metadata() or {}).get(KEY)
        if header is None:
            raise ValueError(
                f"{path} holds weights but not the network they belong to: load_model takes files "
                "of save_model; use load_state_dict for others"
            )
        names = list(file.keys())
        try:
            config = _config(header)
            _check_shapes(config, {name: tuple(file.get_slice(name).get_shape()) for name in names})
        except UNUSABLE as error:
            raise ValueError(f"{path} cannot be loaded: {_short(error)}") from error
        return {name: file.get_tensor(name) for name in names}, config


def describes_network(path: str | Path) -> bool:
    """Whether a file is one of `save_model`, by its header."""
    try:
        with open_tensors(Path(path)) as file:
            return KEY in (file.metadata() or {})
    except (ValueError, OSError):
        return False


def _config(header: str) -> ModelConfig:
    found = json.loads(header)
    if found["format"] != FORMAT:
        raise ValueError(f"its format is {found['format']}, and this version reads {FORMAT}")
    return ModelConfig.from_dict(found["model"])


def _check_shapes(config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise unless these are the tensors of the network, of which nothing is allocated.

    First its size is compared with the file's: a network of a billion blocks is never made.
    """
    blocks = config.count * len(config.stacks)
    depth = 0 if is_foreign(config.name) else sum(network_shape(config.name).depths)
    numbers = sum(prod(shape) for shape in shapes.values())
    described = (
        f"its header describes {config.name} with {config.num_classes} classes and {blocks} "
        "non-local blocks"
    )
    least = config.num_classes if is_foreign(config.name) else depth * SMALLEST_BLOCK
    if depth + blocks > len(shapes) or least > numbers:
        raise ValueError(f"{described}, but it has {len(shapes)} tensors of {numbers} numbers")
    expected = _shapes(config)
    for name in sorted(expected.keys() | shapes.keys()):
        wanted, seen = expected.get(name, "missing"), shapes.get(name, "missing")
        if wanted != seen:
            raise ValueError(f"{described}, in which {name} is {wanted}; in the file it is {seen}")


def _shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a network's tensors. Blocks of a stack are equal: one is made."""
    count = config.count
    if config.blocks is not None and count:
        config = replace(config, blocks=replace(config.blocks, count=1))
    made = {name: tuple(value.shape) for name, value in _skeleton(config).state_dict().items()}
    for stack in config.stacks:
        first = {name: made.pop(name) for name in list(made) if name.startswith(f"{stack}0.")}
        for index in range(count):
            own = f"{stack}{index}."
            made |= {own + name.removeprefix(f"{stack}0."): shape for name, shape in first.items()}
    return made


def _skeleton(config: ModelConfig) -> nn.Module:
    """The network without numbers; a user's own function may be unable to do without them."""
    meta = torch.device("meta")
    if not is_foreign(config.name) or config.name.startswith(TIMM):
        with meta:
            return make_network(config)
    try:
        with meta:
            network = make_foreign(config.name, config.num_classes)
    except ValueError:
        network = make_foreign(config.name, config.num_classes)
    with meta:
        return place_stacks(network, config)


def _short(error: Exception) -> str:
    """The start of an error's first line, which may quote the file."""
    lines = (str(error) or type(error).__name__).splitlines()
    clean = "".join(letter if letter.isprintable() else "?" for letter in lines[0][:LONGEST])
    return clean if len(lines[0]) <= LONGEST else f"{clean} ..."
