"""A plan as lines of text, and as plain values for JSON."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from scalednl.lab.console import counted, duration
from scalednl.lab.paper.claims import main_claims
from scalednl.lab.paper.hours import Rates, paper_hours
from scalednl.lab.paper.rules import RULES
from scalednl.lab.sweep.commands import train_command
from scalednl.lab.sweep.outlook import measured_deviations, outlook_lines, outlooks
from scalednl.lab.sweep.plan import PlannedRun, SweepPlan

SCHEMA = 1


def plan_lines(plan: SweepPlan) -> Iterator[str]:
    """Every run and its command under the first table that needs it, then totals."""
    yield f"{plan.scale.name}: {plan.scale.words}"
    yield f"runs in {plan.out}"
    width = max((len(run.name) for run in plan.runs), default=0)
    for artefact in plan.chosen:
        mine = [run for run in plan.runs if run.artefacts[0] == artefact.name]
        shared = sum(artefact.name in run.artefacts for run in plan.runs) - len(mine)
        yield ""
        note = f" ({shared} more are listed above)" if shared else ""
        part = f", only {artefact.part}" if artefact.part else ""
        yield f"{artefact.name}{part}: {counted(len(mine), 'run')}{note}"
        for run in mine:
            yield "  " + _line(run, width, plan.rates)
            yield "      " + train_command(run, plan.shared)
    yield ""
    yield from _totals(plan)
    yield ""
    yield from outlook_lines(plan)


def plan_values(plan: SweepPlan) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "schema": SCHEMA,
        "scale": plan.scale.name,
        "artefacts": [artefact.name for artefact in plan.chosen],
        "only": next((artefact.part for artefact in plan.chosen), ""),
        "out": str(plan.out),
        "rate": plan.rates.words,
        "totals": _sums(plan),
        "decides": _decides(plan),
        "runs": [
            {
                "name": run.name,
                "path": str(run.path),
                "command": train_command(run, plan.shared),
                "artefacts": list(run.artefacts),
                "data": run.experiment.data,
                "model": run.experiment.model,
                "seed": run.experiment.seed,
                "epochs": run.experiment.epochs,
                "epochs_done": run.epochs_done,
                "state": run.state,
                "note": run.note,
                "after": list(run.after),
                "hours_here": run.seconds(plan.rates) / 3600,
                "hours_left_here": run.seconds_left(plan.rates) / 3600,
                "hours_paper_gpu": paper_hours(run.experiment),
            }
            for run in plan.runs
        ],
    }


def _decides(plan: SweepPlan) -> dict[str, Any]:
    rule, deviations = RULES[plan.scale.name], measured_deviations(plan)
    found, absent = outlooks(plan, deviations)
    return {
        "looks": list(rule.looks),
        "levels_by_rows": list(rule.levels),
        "main_claims": main_claims(plan.scale),
        "run_sd": dict(deviations.by_data),
        "claims": [
            {
                "claim": one.claim.name,
                "kind": one.claim.kind,
                "rows": one.rows,
                "seeds_planned": one.planned,
                "seeds_judged": one.seeds,
                "sees": one.sees,
                "margin": one.margin,
                "printed": one.printed,
                "in_reach": one.in_reach,
                "seeds_needed": None if one.needed is None else one.needed.seeds,
                "hours_missing": one.more_hours,
            }
            for one in found
        ],
        "not_trained": absent,
    }


def _line(run: PlannedRun, width: int, rates: Rates) -> str:
    experiment = run.experiment
    state: str = run.state
    if run.state in ("interrupted", "running", "failed") and run.epochs_done:
        state += f" after epoch {run.epochs_done}"
    if run.note:
        state += f": {run.note}"
    elif run.state == "waiting" and run.after:
        state += f" for {', '.join(run.after)}"
    estimate = duration(run.seconds(rates))
    return (
        f"{run.name:{width}}  {experiment.data:13}  {experiment.epochs:3} epochs  "
        f"{estimate:>11}  {state}"
    )


def _sums(plan: SweepPlan) -> dict[str, Any]:
    todo = [run for run in plan.runs if not run.has_ended]
    return {
        "runs": len(plan.runs),
        "states": dict(Counter(run.state for run in plan.runs)),
        "done": len(plan.runs) - len(todo),
        "to_do": len(todo),
        "hours_here": sum(run.seconds(plan.rates) for run in plan.runs) / 3600,
        "hours_left_here": sum(run.seconds_left(plan.rates) for run in plan.runs) / 3600,
        "hours_paper_gpu": sum(paper_hours(run.experiment) for run in plan.runs),
        "hours_left_paper_gpu": sum(paper_hours(run.experiment) for run in todo),
    }


def _totals(plan: SweepPlan) -> Iterator[str]:
    sums = _sums(plan)
    hours = {name: duration(3600 * value) for name, value in sums.items() if "hours" in name}
    states = ", ".join(f"{count:,} {state}" for state, count in sums["states"].items())
    runs = counted(sums["runs"], "run")
    yield f"{runs}: {sums['done']:,} done, {sums['to_do']:,} to do ({states})"
    yield (
        f"here, one run at a time: {hours['hours_left_here']} to do of "
        f"{hours['hours_here']}, at {plan.rates.words}"
    )
    yield (
        f"on the paper's GPU: {hours['hours_left_paper_gpu']} to do of "
        f"{hours['hours_paper_gpu']}, by Table 3's 62.37 ms a step of PreResNet-56"
    )
