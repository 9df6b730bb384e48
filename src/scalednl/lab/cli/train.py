"""`scalednl train`."""

import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from scalednl.errors import CommandError, UsageError
from scalednl.lab.config import Experiment, RunSettings
from scalednl.lab.config.folder import is_folder, short_name
from scalednl.lab.console import emit
from scalednl.lab.machine import most_threads
from scalednl.lab.streams import lasting_output
from scalednl.lab.user_code import files_of

if TYPE_CHECKING:
    from scalednl.lab.records.run import RunFolder
    from scalednl.lab.training.run import RunOutcome

HELP = """usage: scalednl train RECIPE [OPTIONS]
       scalednl train --data NAME --model NETWORK [OPTIONS]
       scalednl train RUN_DIRECTORY
       scalednl train --list

Train a network into a run directory. You can interrupt it at any time: the same command, or the run
directory's name, resumes it and leads to the same result.

  scalednl train pairs-scaled                         generated data, under a minute
  scalednl train cifar10-preresnet56-scaled --seed 3  the paper's recipe
  scalednl train cifar10-preresnet20-scaled-short --limit 10000 --epochs 5
  scalednl train cifar10-preresnet56-scaled --block.heads 8 --lr 0.05 --out runs/mine
  scalednl train cifar10-preresnet56-scaled --dry-run print its cost
  scalednl train cifar10-preresnet20-scaled-short --data folder:photos
                                                      images of your own
  scalednl train --data cifar10 --model preresnet20   no recipe: one-cycle, 15 epochs, 3 blocks
  scalednl train --data cifar10 --model timm:resnet18 --at layer2
                                                      a network of timm, blocks behind its layer2
  scalednl train --data cifar10 --model my_file.py:build --at stage2
                                                      your own: build(num_classes) makes it
  scalednl train runs/mine                            resume
  torchrun --nproc-per-node 2 -m scalednl train pairs-scaled
                                                      two processes

`scalednl train RECIPE --help` lists all options with the recipe's values, and
`scalednl train --data NAME --model NETWORK --help` those without a recipe.
"""


@dataclass(frozen=True)
class TrainArguments:
    """Options after a recipe's name."""

    experiment: Annotated[Experiment, tyro.conf.arg(name="")]
    run: Annotated[RunSettings, tyro.conf.arg(name="")] = field(default_factory=RunSettings)
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """The run directory; runs/RECIPE-seedN if not given, runs/DATA-NETWORK-ATTENTION-seedN-LETTERS
    without a recipe"""
    root: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Folder of the data sets; $SCALEDNL_DATA or the platform's cache folder if not given"""
    dry_run: bool = False
    """Print parameters, multiply-adds, memory, steps and time, and stop"""


def train(recipe: tyro.conf.Positional[str]) -> None:
    """Train a network by a recipe, or resume a run.

    `scalednl train --help` shows examples.

    Args:
        recipe: A name of `scalednl train --list`, or a run directory.
    """
    parse_train([recipe])()


def parse_train(arguments: list[str]) -> Callable[[], None]:
    """`scalednl train` with these arguments; the recipe gives the others their defaults."""
    if not arguments or arguments[0] in ("--help", "-h"):
        print(HELP, end="", file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    if arguments == ["--list"]:
        return _list
    name, rest = arguments[0], arguments[1:]
    if name.startswith("-"):
        return partial(_train, _parse_custom(arguments))
    return partial(_train, _parse(name, rest))


def _parse_custom(arguments: list[str]) -> TrainArguments:
    """Options without a recipe, which must name data and network."""
    from scalednl.lab.recipes import custom_recipe

    given = {argument.partition("=")[0] for argument in arguments}
    missing = [name for name in ("--data", "--model") if name not in given]
    if missing:
        raise UsageError(
            f"name a recipe before {arguments[0]} (`scalednl train --list` lists them), or give "
            f"both --data and --model: {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing"
        )
    default = TrainArguments(custom_recipe("cifar10", "preresnet20"))
    return _with_options(default, arguments, "scalednl train")


def _train(parsed: TrainArguments) -> None:
    if parsed.dry_run:
        from scalednl.lab.training.plan import plan_run

        print(plan_run(parsed.experiment, parsed.run, parsed.root))
        return
    if is_folder(parsed.experiment.data) and parsed.out is None:
        from scalednl.lab.data.folder_cache import with_images

        # The name of the run contains letters of the images' fingerprint.
        parsed = replace(parsed, experiment=with_images(parsed.experiment, parsed.root))
    out = parsed.out or _default_folder(parsed.experiment)
    with lasting_output():
        _finish(_run(parsed, out), out, parsed.experiment)


def _parse(name: str, rest: list[str]) -> TrainArguments:
    from scalednl.lab.recipes import find_recipe, recipes
    from scalednl.lab.records.run import RunFolder

    folder = RunFolder(Path(name))
    is_recipe = name in recipes()
    if not is_recipe and folder.exists():
        default = _as_before(folder)
    elif not is_recipe and (os.sep in name or os.path.isdir(name)):
        raise UsageError(
            f"{name} is neither a recipe nor a run directory: `scalednl train --list` lists all "
            "recipes"
        )
    else:
        default = TrainArguments(find_recipe(name))
    return _with_options(default, rest, f"scalednl train {name}")


def _with_options(default: TrainArguments, options: list[str], prog: str) -> TrainArguments:
    try:
        found = tyro.cli(TrainArguments, default=default, args=options, prog=prog)
    except ValueError as error:
        raise UsageError(str(error)) from error
    experiment = found.experiment
    has_milestones = any(option.partition("=")[0] == "--milestones" for option in options)
    if experiment.schedule == "one-cycle" and has_milestones:
        epochs = " ".join(map(str, experiment.milestones))
        raise UsageError(
            f"--milestones {epochs} has no effect on the one-cycle schedule: use --schedule steps, "
            "or leave out --milestones"
        )
    if experiment.data == default.experiment.data:
        return found
    # Another folder of images: what is in it is not known yet.
    unknown = replace(experiment.folder, found=None)
    return replace(found, experiment=replace(experiment, folder=unknown))


def _as_before(folder: "RunFolder") -> TrainArguments:
    """The options that a run was started with, so that its name alone resumes it.

    A machine that cannot use so many threads uses its default; the run reports the difference.
    """
    experiment, setup = folder.read_config()
    values, threads = setup.settings, setup.settings.get("threads")
    if isinstance(threads, int) and threads > most_threads():
        values = {**values, "threads": None}
    try:
        settings = RunSettings.from_dict(values)
        root = None if setup.root is None else Path(setup.root)
    except TypeError as error:
        raise CommandError(
            f"{folder.path / 'config.json'} is not of this version: {error}"
        ) from error
    return TrainArguments(experiment, settings, folder.path, root)


def _default_folder(experiment: Experiment) -> Path:
    """runs/RECIPE-seedN, with letters of the digest if an option differs from the recipe.

    Without a recipe, data, network and attention take its place. Images of the user's own are part
    of the name.
    """
    from scalednl.lab.recipes import CUSTOM, PLAIN, recipes

    usual = recipes().get(experiment.recipe)
    images = short_name(experiment.data) if is_folder(experiment.data) else ""
    stem = Path(experiment.recipe).name + (f"-on-{images}" if images else "")
    if usual is not None and experiment.block.attention != usual.block.attention:
        stem += f"-{experiment.block.attention}"
    if experiment.recipe == CUSTOM:
        attention = experiment.block.attention if experiment.blocks else PLAIN
        stem = "-".join(map(_safe, (images or experiment.data, experiment.model, attention)))
    name = f"{stem}-seed{experiment.seed}"
    if usual is None or replace(usual, seed=experiment.seed) != experiment:
        name += f"-{experiment.digest[:6]}"
    return Path("runs") / name


def _safe(text: str) -> str:
    """Letters that every file system takes; of a path, its last part."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", Path(text).name)[-40:].strip("._") or "own"


def _run(parsed: TrainArguments, out: Path) -> "RunOutcome":
    import warnings

    from scalednl.lab.training.devices import is_first_process
    from scalednl.lab.training.run import run

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print(
            f"scalednl: {message}", file=sys.stderr, flush=True
        )
        try:
            return run(parsed.experiment, out, parsed.run, root=parsed.root)
        except ValueError as error:
            raise CommandError(str(error)) from error
        except RuntimeError:
            # Another rank has failed and reported why; this one lost its connection to it.
            if is_first_process():
                raise
            sys.exit(1)


def _finish(outcome: "RunOutcome", out: Path, experiment: Experiment) -> None:
    from scalednl.lab.training.devices import is_first_process
    from scalednl.lab.training.run_writer import summary

    if is_first_process():
        emit(f"{out}: {summary(outcome.result)}")
        if outcome.status == "interrupted":
            code = (word for path in files_of(experiment.code) for word in ("--code", str(path)))
            emit(f"Resume with: scalednl train {shlex.join([str(out), *code])}")
    if outcome.status == "interrupted":
        sys.exit(128 + outcome.signal if is_first_process() else 0)


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    from scalednl.lab.recipes import describe, recipes

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("recipe", no_wrap=True)
    table.add_column("what")
    for name, recipe in recipes().items():
        table.add_row(name, describe(recipe))
    Console(width=None if sys.stdout.isatty() else 120).print(table)
