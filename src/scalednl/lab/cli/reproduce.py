"""`scalednl reproduce`."""

import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import tyro

from scalednl.errors import UsageError
from scalednl.lab.sweep.reproduce import ReproduceOptions

if TYPE_CHECKING:
    from scalednl.lab.sweep.schedule import SweepOutcome


def reproduce(
    names: Annotated[list[str], tyro.conf.Positional, tyro.conf.arg(metavar="NAME")],
    options: Annotated[ReproduceOptions, tyro.conf.arg(name="")],
    only: Annotated[
        tuple[tuple[str, ...], ...],
        tyro.conf.UseAppendAction,
        tyro.conf.arg(metavar="KEY=VALUE[,VALUE] ..."),
    ] = (),
    plan: bool = False,
    json: bool = False,
) -> None:
    """Reproduce tables and figures of the paper, or parts of them.

    Names are table1_importance, table2_initialization, table3_heads, table4_backbones,
    figure1_attention_maps, figure2_embedding_channels, or how one of them begins; "controls" are
    seven that the paper lacks, "all" is everything, "evidence" the declared plan, line by line.
    Runs that several of them need are trained once. You can interrupt it at any time: the same
    command resumes, keeps finished runs, and retries failed ones.

    For example `scalednl reproduce table1` on generated images in minutes,
    `scalednl reproduce table1 --scale lite --data cifar10 --only view=base,direction`
    for a part,
    `scalednl reproduce table3_heads --scale paper --plan` to see what the original costs,
    `scalednl reproduce all --scale lite --jobs 2`, or on a cluster
    `scalednl reproduce all --scale paper --engine ray --address HOST:6379 --gpus 0.5 --out SHARED`.

    Args:
        names: Tables and figures, "controls", "evidence", or "all".
        options: How to run.
        only: Only the cells with these values of data, network, attention, view, heads, init,
            embed_channels, row, column, or another option of the blocks.
        plan: Print every run with its state, estimated hours and train command, and stop.
        json: Print the plan as JSON.
    """
    if () in only:
        raise UsageError("--only takes KEY=VALUE, such as data=cifar10, got nothing")
    options = replace(options, only=tuple(text for texts in only for text in texts))
    if json and not plan:
        raise UsageError("--json is for --plan: add --plan, or leave it out")
    if plan:
        _print_plan(names, options, json)
        return
    from scalednl.lab.streams import lasting_output
    from scalednl.lab.sweep.reproduce import reproduce as run

    with lasting_output():
        outcome = run(names, options)
        _print_outcome(outcome)
    sys.exit(outcome.exit_code)


def _print_plan(names: list[str], options: ReproduceOptions, json: bool) -> None:
    import json as encoder

    from scalednl.lab.sweep.plan_view import plan_lines, plan_values
    from scalednl.lab.sweep.reproduce import plan_reproduction

    plan = plan_reproduction(names, options)
    if json:
        print(encoder.dumps(plan_values(plan), indent=2))
    else:
        print("\n".join(plan_lines(plan)))


def _print_outcome(outcome: "SweepOutcome") -> None:
    """Print failed runs with the end of their logs, the counts, and how to resume."""
    from scalednl.lab.console import counted, emit
    from scalednl.lab.records.failure import LOG, log_tail

    for name, message in outcome.failed.items():
        emit(f"failed: {name}: {message}")
        folder = outcome.folders[name]
        tail = log_tail(folder)
        if tail:
            emit(f"  the end of {folder / LOG}:")
            for line in tail:
                emit(f"  | {line}")
    for name, message in outcome.blocked.items():
        emit(f"blocked: {name}: {message}")
    emit(
        f"{counted(len(outcome.folders), 'run')}: {len(outcome.finished)} finished, "
        f"{len(outcome.diverged)} diverged, {len(outcome.failed) + len(outcome.blocked)} failed, "
        f"{len(outcome.left)} left"
    )
    if outcome.exit_code:
        emit(f"Resume with: {shlex.join(['scalednl', *sys.argv[1:]])}")
    if outcome.page is not None:
        emit(str(outcome.page))
