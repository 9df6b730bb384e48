"""Tables and figures of the paper again: plan, training, attention, page. Imports no torch."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from scalednl.errors import UsageError
from scalednl.lab.config import RunSettings
from scalednl.lab.config.experiment import Precision
from scalednl.lab.config.limits import check_at_least
from scalednl.lab.config.settings import Device
from scalednl.lab.paper.scales import ScaleName

if TYPE_CHECKING:
    from scalednl.lab.paper.grids import OwnAttention
    from scalednl.lab.sweep.plan import PlannedRun, SweepPlan
    from scalednl.lab.sweep.schedule import Engine, SweepOutcome

IMAGES = 500
"""Test images on which attention is scored"""


@dataclass(frozen=True)
class ReproduceOptions:
    """How tables and figures are reproduced."""

    scale: ScaleName = "smoke"
    """How much of the paper: generated images in minutes, CIFAR in hours, or everything"""
    engine: Literal["local", "ray"] = "local"
    """Processes on this machine, or a Ray cluster"""
    jobs: int = 1
    """Runs at a time on this machine"""
    threads: int | None = None
    """Processor threads per run; its share of the cores if not given"""
    seeds: int | None = None
    """Seeds per cell; the scale's own number if not given"""
    only: Annotated[tuple[str, ...], tyro.conf.Suppress] = ()
    """KEY=VALUE[,VALUE]: only the cells that have these values"""
    networks: Annotated[str | None, tyro.conf.arg(metavar="NAME[,NAME]")] = None
    """Only the cells of these networks: --only network=..."""
    data: Annotated[str | None, tyro.conf.arg(metavar="NAME[,NAME]")] = None
    """Only the cells of these data sets: --only data=..."""
    retries: int = 2
    """How often a failed run is tried again"""
    stall_minutes: float = 30.0
    """Minutes without a step after which a run is ended and tried again"""
    out: Path | None = None
    """Folder for the runs; runs/reproduce-SCALE if not given"""
    root: Path | None = None
    """Folder of the data sets; $SCALEDNL_DATA or the platform's cache folder if not given"""
    device: Device = "auto"
    """"auto" uses a GPU if there is one"""
    precision: Precision = "fp32"
    """bf16 and fp16 are mixed precision"""
    address: str | None = None
    """Address of a running Ray cluster; $RAY_ADDRESS, or a new cluster if not given"""
    cpus: float = 1.0
    """Processors of the cluster per run"""
    gpus: float = 0.0
    """GPUs of the cluster per run; 0.25 puts four runs on one"""
    report: bool = True
    """Write report.html when all runs have ended"""
    attention: tuple[str, ...] = ()
    """Attentions of your own, FILE.py:NAME, beside softmax and scaled in every table"""

    def __post_init__(self) -> None:
        check_at_least(1, jobs=self.jobs, threads=self.threads, seeds=self.seeds)
        check_at_least(0, retries=self.retries, cpus=self.cpus, gpus=self.gpus)
        if not self.stall_minutes > 0:
            raise UsageError(f"--stall-minutes must be more than 0, got {self.stall_minutes}")
        for text in self.only:
            if "=" not in text:
                raise UsageError(
                    f"--only takes KEY=VALUE, such as data=cifar10, got {text!r}; tables are named "
                    "before it"
                )
        if self.engine == "ray" and self.jobs != 1:
            raise UsageError("--jobs is for --engine local: use --cpus and --gpus with ray")
        if self.engine == "local" and (self.address, self.cpus, self.gpus) != (None, 1.0, 0.0):
            raise UsageError("--address, --cpus and --gpus are for --engine ray")

    @property
    def folder(self) -> Path:
        """Folder for the runs."""
        return self.out or Path("runs") / f"reproduce-{self.scale}"

    @property
    def selection(self) -> tuple[str, ...]:
        """All values that cells are chosen by."""
        named = {"network": self.networks, "data": self.data}
        asked = (f"{key}={value}" for key, value in named.items() if value is not None)
        return (*self.only, *asked)

    @property
    def train_options(self) -> tuple[str, ...]:
        """What was asked for, as options of `scalednl train`."""
        asked = {
            "device": None if self.device == "auto" else self.device,
            "threads": self.threads,
            "root": self.root,
        }
        given = {f"--{name}": str(value) for name, value in asked.items() if value is not None}
        return tuple(word for option in given.items() for word in option)

    @property
    def run_threads(self) -> int:
        """Threads of one run."""
        from scalednl.lab.machine import cores

        if self.threads is not None:
            return self.threads
        return max(1, int(self.cpus) if self.engine == "ray" else cores() // self.jobs)


def own_in_tables(names: Sequence[str]) -> "tuple[OwnAttention, ...]":
    """The attentions of a user's own that stand beside those of the paper."""
    from scalednl.attentions import own_attentions
    from scalednl.lab.paper.grids import OwnAttention
    from scalednl.lab.user_code import code_of
    from scalednl.options import suggestion

    known = own_attentions()
    for name in names:
        if name not in known:
            hint = suggestion(name, known) or ": give the file that registers it, FILE.py:NAME"
            raise UsageError(f"--attention {name} is no attention of your own{hint}")
    unique = tuple(dict.fromkeys(names))
    return tuple(OwnAttention(name, code_of([name])[0], name) for name in unique)


def plan_reproduction(names: Sequence[str], options: ReproduceOptions) -> "SweepPlan":
    """Which runs tables and figures need, and which of them the folder already has."""
    from scalednl.lab.paper.artefacts import artefacts, find_artefacts
    from scalednl.lab.paper.scales import scale_at
    from scalednl.lab.paper.selection import select
    from scalednl.lab.sweep.plan import make_sweep_plan

    if not names:
        raise UsageError(
            f"name what to reproduce: {', '.join(artefacts())}, controls, evidence or all"
        )
    own = own_in_tables(options.attention)
    chosen, scale = find_artefacts(list(names), own), scale_at(options.scale, options.precision)
    if own and (fixed := [table.name for table in chosen if not table.own]):
        raise UsageError(f"--attention cannot be added to the declared plan ({fixed[0]})")
    out = options.folder
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder: choose another one with --out")
    chosen = select(chosen, scale, options.selection)
    plan = make_sweep_plan(chosen, scale, out, options.seeds, options.run_threads)
    if not plan.runs:
        raise UsageError(f"{', '.join(names)} has no runs at the scale {scale.name}")
    return replace(plan, shared=options.train_options)


def reproduce(names: Sequence[str], options: ReproduceOptions | None = None) -> "SweepOutcome":
    """Train all runs that tables and figures need, and write the report.

    Runs that several tables need are trained once, and those that the folder has are kept. The
    attention of the runs of Figure 1 is recorded as soon as each of them has finished.
    """
    options = options or ReproduceOptions()
    plan = plan_reproduction(names, options)
    _check_data(plan, options.root)
    page = options.folder / "report.html"
    if options.report:
        from scalednl.lab.report.write import check_page

        check_page(page, "choose another folder with --out, or --no-report")
    outcome = _sweep(plan, options)
    if options.report and not outcome.signal:
        from scalednl.lab.console import emit
        from scalednl.lab.report.write import write_report

        emit("writing the report")
        outcome = replace(outcome, page=write_report([options.folder], page))
    return outcome


def needs_attention(plan: "SweepPlan", run: "PlannedRun") -> bool:
    """Whether a chosen figure shows what the blocks of this run attend to."""
    shown = {artefact.name for artefact in plan.chosen if artefact.shows_maps}
    return run.experiment.blocks > 0 and not shown.isdisjoint(run.artefacts)


def _check_data(plan: "SweepPlan", root: Path | None) -> None:
    """Raise before anything starts if a data set is missing."""
    from scalednl.lab.config.generated import GENERATED

    needed = {run.experiment.data for run in plan.runs if not run.has_ended} - GENERATED.keys()
    if needed:
        from scalednl.lab.data import store

        for name in sorted(needed):
            store.find(store.data_root(root), name)


def _sweep(plan: "SweepPlan", options: ReproduceOptions) -> "SweepOutcome":
    from scalednl.lab.records.attention import is_current
    from scalednl.lab.sweep.display import SweepDisplay
    from scalednl.lab.sweep.schedule import sweep
    from scalednl.lab.sweep.worker import Job

    # Ray gives a worker as many threads as it has CPUs, on machines that may have more than ours.
    threads = options.threads if options.engine == "ray" else options.run_threads
    settings = RunSettings(device=options.device, threads=threads)

    def make_job(run: "PlannedRun") -> Job:
        return Job.of(run, settings, options.root, IMAGES if needs_attention(plan, run) else 0)

    def is_complete(run: "PlannedRun") -> bool:
        return not needs_attention(plan, run) or is_current(run.path, IMAGES)

    idle = all(run.has_ended and is_complete(run) for run in plan.runs)
    with (
        closing(_engine(options, idle)) as engine,
        SweepDisplay(lambda run: run.seconds(plan.rates), engine.slots()) as display,
    ):
        return sweep(
            plan.runs,
            engine,
            make_job,
            display=display,
            retries=options.retries,
            stall_seconds=60 * options.stall_minutes,
            is_complete=is_complete,
        )


def _engine(options: ReproduceOptions, idle: bool) -> "Engine":
    """The engine of the options; with nothing to do, the one that starts at once."""
    if options.engine == "local" or idle:
        from scalednl.lab.sweep.engine_local import LocalEngine

        return LocalEngine(options.jobs)
    from scalednl.lab.sweep.engine_ray import RayEngine

    return RayEngine(options.folder, address=options.address, cpus=options.cpus, gpus=options.gpus)
