"""Networks of a user's own: the functions of files that were named, and their fingerprints."""

import inspect
from dataclasses import dataclass, replace
from pathlib import Path

from scalednl.config import TIMM, is_foreign
from scalednl.errors import UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.user_code import UserCode, load_code
from scalednl.models.foreign_network import register_builder, takes_num_classes


@dataclass(frozen=True)
class _Origin:
    path: Path
    fingerprint: str


_origins: dict[str, _Origin] = {}
"""By the name that experiments have, FILE:FUNCTION without .py"""


def register_network(path: Path, function: str) -> str:
    """Execute a file and register its function; returns the name for `Experiment.model`."""
    return _register(load_code(path), function)


def register_networks(path: Path) -> list[str]:
    """Execute a file and register each of its own functions that takes `num_classes`."""
    code = load_code(path)
    own = [
        name
        for name, value in vars(code.module).items()
        if (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == code.module.__name__
        and takes_num_classes(value)
    ]
    return [_register(code, name) for name in own]


def _register(code: UserCode, function: str) -> str:
    name = f"{code.path.stem}:{function}"
    known = _origins.get(name)
    if known is not None and known.path != code.path and known.fingerprint != code.fingerprint:
        raise UsageError(
            f"{known.path} and {code.path} are both called {code.path.name}: rename one of them"
        )
    try:
        register_builder(name, code.function(function))
    except ValueError as error:
        raise UsageError(f"{code.path}: {error}") from error
    _origins[name] = _Origin(code.path, code.fingerprint)
    return name


def files_of(experiment: Experiment) -> tuple[Path, ...]:
    """The files of the user's own that an experiment needs, where they are loaded."""
    names = [entry.partition("=")[0] for entry in experiment.code]
    return tuple(dict.fromkeys(_origins[name].path for name in names if name in _origins))


def with_code(experiment: Experiment) -> Experiment:
    """The experiment with the fingerprint of its network, if that is of a user's own.

    Raises as `check_code` does.
    """
    check_code(experiment)
    name = experiment.model
    recorded = any(entry.startswith(f"{name}=") for entry in experiment.code)
    if not _is_own(name) or recorded:
        return experiment
    return replace(
        experiment, code=tuple(sorted((*experiment.code, f"{name}={_origins[name].fingerprint}")))
    )


def check_code(experiment: Experiment) -> None:
    """Raise unless the network of an experiment is loaded, with the code it was recorded with."""
    name = experiment.model
    if not _is_own(name):
        return
    if name not in _origins:
        raise UsageError(f"this run uses the network {name} of a file of your own: {advice(name)}")
    found = _origins[name]
    for entry in experiment.code:
        recorded, _, fingerprint = entry.partition("=")
        if recorded == name and fingerprint != found.fingerprint:
            raise UsageError(
                f"{found.path} has changed since this run began: restore the code of {name}, or "
                "train into another folder with --out"
            )


def advice(name: str) -> str:
    """How to load the file of a network of the user's own."""
    return f"add --code {name.partition(':')[0]}.py"


def _is_own(name: str) -> bool:
    return is_foreign(name) and not name.startswith(TIMM)
