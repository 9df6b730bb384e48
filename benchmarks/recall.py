"""What `recall` asks of attention: errors by colours and head width, and without queries.

python -m benchmarks.recall --colours 6 --width 8 --attention softmax --out FOLDER

Trains one network and prints its test error, the error when every row of the attention map is
replaced by the mean over all rows (so that all queries see the same), and the error of a network
that was trained with such maps from the start.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import tyro
from torch import Tensor

from scalednl import NonLocal2d
from scalednl.functional import nonlocal_attention
from scalednl.lab.config import Experiment, RunSettings
from scalednl.lab.recipes import find_recipe
from scalednl.lab.training.evaluate import evaluate_source
from scalednl.lab.training.run import run


@dataclass(frozen=True)
class Options:
    """One line of the table."""

    attention: Literal["plain", "softmax", "scaled"] = "softmax"
    colours: int = 6
    per_side: int = 2
    heads: int = 4
    width: int = 8
    """Channels per head"""
    epochs: int = 4
    seed: int = 0
    same_for_all: bool = False
    """Train with maps that are the same for all queries"""
    out: Path = Path("runs/recall")


def experiment(options: Options) -> Experiment:
    """The recipe with these options."""
    recipe = find_recipe(f"recall-{options.attention}")
    height = options.per_side * (recipe.recall.patch + 1)
    data = replace(recipe.recall, colours=options.colours, per_side=options.per_side, height=height)
    block = recipe.block
    if recipe.blocks:
        embed = options.heads * options.width
        block = replace(block, heads=options.heads, embed_channels=embed)
    return replace(recipe, recall=data, block=block, epochs=options.epochs, seed=options.seed)


def _column_mean(block: NonLocal2d, x: Tensor) -> Tensor:
    """z where every query has the mean row of A: y is the mean over all queries."""
    theta, phi, g = block.theta(x), block.phi(x), block.g(x)
    y = nonlocal_attention(theta, phi, g, heads=block.heads, attention=block.attention)
    assert block.norm is not None
    return x + block.norm(block.out(y.mean((2, 3), keepdim=True).expand_as(y)))


@contextmanager
def same_for_all_queries() -> Iterator[None]:
    """Within it, all blocks use the mean row of their maps."""
    with patch.object(NonLocal2d, "forward", _column_mean):
        yield


def main(options: Options) -> None:
    """Train, test, replace, test."""
    wanted = experiment(options)
    name = f"{options.attention}-colours{options.colours}-per-side{options.per_side}"
    name += f"-heads{options.heads}x{options.width}-seed{options.seed}"
    folder = options.out / (f"{name}-same" if options.same_for_all else name)
    settings = RunSettings(tensorboard=False)
    if options.same_for_all:
        with same_for_all_queries():
            outcome = run(wanted, folder, settings, quiet=True)
    else:
        outcome = run(wanted, folder, settings, quiet=True)
    words = f"{folder.name}: test error {outcome.result.test_error_pct.last:.1f} %"
    if not options.same_for_all and wanted.blocks:
        with same_for_all_queries():
            found = evaluate_source(folder, None, None, None)
        words += f", with the mean row for all queries {found.test_error_pct:.1f} %"
    print(f"{words}, {outcome.result.seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options))
