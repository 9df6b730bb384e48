"""The `scalednl train` command of a planned run. Imports no torch."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from scalednl.lab.recipes import recipes
from scalednl.lab.sweep.plan import PlannedRun
from scalednl.lab.user_code import loaded_files


def train_command(run: PlannedRun, shared: Sequence[str] = ()) -> str:
    """The command that trains a run into its folder, for a shell.

    It names the recipe and what differs from it, and then `shared`, the options that all runs have.
    A run that was made without a recipe is named by its folder.
    """
    usual = recipes().get(run.experiment.recipe)
    if usual is None:
        return shlex.join(["scalednl", "train", str(run.path)])
    words = [run.experiment.recipe, *changed_options(run.experiment, usual), *shared]
    if run.experiment.code:
        words += [word for file in loaded_files() for word in ("--code", str(file))]
    return shlex.join(["scalednl", "train", *words, "--out", str(run.path)])


def changed_options(mine: Any, usual: Any, inside: str = "") -> Iterator[str]:
    """The options of `scalednl train` that make a configuration of another one of its type."""
    for field in fields(mine):
        value, default = getattr(mine, field.name), getattr(usual, field.name)
        name = field.name.replace("_", "-")
        if is_dataclass(value):
            yield from changed_options(value, default, f"{inside}{name}.")
        elif value == default:
            continue
        elif field.type is bool:
            yield f"--{inside}{'' if value else 'no-'}{name}"
        else:
            yield f"--{inside}{name}"
            yield from map(str, value if isinstance(value, tuple) else [value])
