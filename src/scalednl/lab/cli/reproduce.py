"""`scalednl reproduce`."""

import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from scalednl.errors import CommandError, UsageError
from scalednl.lab.config.limits import check_at_least
from scalednl.lab.config.settings import Device, Precision
from scalednl.lab.paper.scales import ScaleName

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scalednl.lab.paper.hours import Rates
    from scalednl.lab.sweep.jobs import Engine
    from scalednl.lab.sweep.plan import Plan, PlannedRun
    from scalednl.lab.sweep.schedule import Summary

MAPS = "figure1_attention_maps"
IMAGES = 500
"""Test images whose attention is scored"""
Number = Annotated[int | None, tyro.conf.arg(metavar="N")]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]


@dataclass(frozen=True)
class ReproduceOptions:
    """How tables and figures are made again."""

    scale: ScaleName = "smoke"
    """How much of the paper: generated images in minutes, CIFAR in hours, or all of it"""
    plan: bool = False
    """Print every run with its estimated hours and what is done, and stop"""
    json: bool = False
    """With --plan: as JSON"""
    engine: Literal["local", "ray"] = "local"
    """Processes on this machine, or a Ray cluster"""
    jobs: int = 1
    """Runs at a time on this machine"""
    threads: Number = None
    """Processor threads of a run; its share of the cores if not given"""
    seeds: Number = None
    """Seeds of every cell; the scale's own number if not given"""
    retries: int = 2
    """How often a run that failed is tried again"""
    out: Folder = None
    """Where the runs go; runs/reproduce-SCALE if not given"""
    root: Folder = None
    """Where data sets are kept: $SCALEDNL_DATA or the platform's cache folder if not given"""
    device: Device = "auto"
    """"auto" takes a GPU if there is one"""
    precision: Precision = "fp32"
    """bf16 and fp16 are mixed precision"""
    address: str | None = None
    """Of a running Ray cluster: $RAY_ADDRESS, or one started here if not given"""
    cpus: float = 1.0
    """Of the cluster's processors for each run"""
    gpus: float = 0.0
    """Of the cluster's GPUs for each run; 0.25 puts four runs on one"""
    report: bool = True
    """Look at the attention of Figure 1's runs and write report.html when all have ended"""

    def __post_init__(self) -> None:
        check_at_least(1, jobs=self.jobs, threads=self.threads, seeds=self.seeds)
        check_at_least(0, retries=self.retries, cpus=self.cpus, gpus=self.gpus)
        if self.json and not self.plan:
            raise UsageError("--json is for --plan")
        if self.engine == "ray" and self.jobs != 1:
            raise UsageError("--jobs is for --engine local: with ray, --cpus and --gpus say it")
        if self.engine == "local" and (self.address, self.cpus, self.gpus) != (None, 1.0, 0.0):
            raise UsageError("--address, --cpus and --gpus are for --engine ray")

    @property
    def folder(self) -> Path:
        """Where the runs go."""
        return self.out or Path("runs") / f"reproduce-{self.scale}"

    @property
    def run_threads(self) -> int:
        """Threads of one run."""
        from scalednl.lab.machine import cores

        if self.threads is not None:
            return self.threads
        return max(1, int(self.cpus) if self.engine == "ray" else cores() // self.jobs)


def reproduce(
    names: Annotated[list[str], tyro.conf.Positional, tyro.conf.arg(metavar="NAME")],
    options: Annotated[ReproduceOptions, tyro.conf.arg(name="")],
) -> None:
    """Make tables and figures of the paper again.

    Names are table1_importance, table2_initialization, table3_heads, table4_backbones,
    figure1_attention_maps, figure2_embedding_channels; "controls" are six that the paper lacks,
    "all" is everything, "evidence" the declared plan, line by line. Runs that several of them need
    are trained once. Interrupt it whenever you like: the same command resumes, keeps what is
    finished, and tries failed runs again.

    For example `scalednl reproduce table1_importance` on generated images in minutes,
    `scalednl reproduce table3_heads --scale paper --plan` to see what the real one costs,
    `scalednl reproduce all --scale lite --jobs 2`, or on a cluster
    `scalednl reproduce all --scale paper --engine ray --address HOST:6379 --gpus 0.5 --out SHARED`.

    Args:
        names: Tables and figures, "controls", "evidence", or "all".
        options: How to run.
    """
    from scalednl.lab.paper.artefacts import artefacts, find_artefacts
    from scalednl.lab.paper.hours import rates
    from scalednl.lab.paper.scales import SCALES
    from scalednl.lab.sweep.plan import make_plan

    if not names:
        raise UsageError(
            f"name what to reproduce: {', '.join(artefacts())}, controls, evidence or all"
        )
    chosen, scale = find_artefacts(names), SCALES[options.scale]
    out = options.folder
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder: choose another one with --out")
    plan = make_plan(chosen, scale, out, options.seeds, options.precision)
    if not plan.runs:
        raise UsageError(f"{', '.join(names)}: nothing of it exists at the scale {scale.name}")
    speed = rates(plan.found, options.run_threads)
    if options.plan:
        _print_plan(plan, names, options, speed)
        return
    _check_data(plan, options.root)
    summary = _sweep(plan, options, speed)
    _tell(plan, summary)
    if options.report and not summary.signal:
        print(finish(plan.runs, summary.done, out, options.root))
    sys.exit(summary.exit_code)


def _print_plan(plan: "Plan", names: list[str], options: ReproduceOptions, speed: "Rates") -> None:
    import json

    from scalednl.lab.paper.artefacts import find_artefacts
    from scalednl.lab.paper.scales import SCALES
    from scalednl.lab.sweep.plan_view import plan_lines, plan_values

    shown = (plan, find_artefacts(names), SCALES[options.scale], options.folder, speed)
    if options.json:
        print(json.dumps(plan_values(*shown), indent=2))
    else:
        print("\n".join(plan_lines(*shown)))


def _check_data(plan: "Plan", root: Path | None) -> None:
    """A data set that is not there is told before anything starts."""
    from scalednl.lab.config.experiment import GENERATED

    wanted = {run.experiment.data for run in plan.runs if not run.has_ended} - GENERATED.keys()
    if not wanted:
        return
    from scalednl.lab.data import store

    for name in sorted(wanted):
        store.find(store.data_root(root), name)


def _sweep(plan: "Plan", options: ReproduceOptions, speed: "Rates") -> "Summary":
    from scalednl.lab.config import RunSettings
    from scalednl.lab.sweep.display import Watch
    from scalednl.lab.sweep.jobs import JobMaker
    from scalednl.lab.sweep.schedule import sweep

    # Ray gives a worker as many threads as it has CPUs, on machines that may have more than ours.
    threads = options.threads if options.engine == "ray" else options.run_threads
    settings = RunSettings(device=options.device, precision=options.precision, threads=threads)
    maker = JobMaker(settings, options.root, command=tuple(sys.argv))
    idle = all(run.has_ended for run in plan.runs)
    with closing(_engine(options, idle)) as engine, Watch(speed.seconds, engine.slots()) as watcher:
        return sweep(plan.runs, engine, maker, watcher=watcher, retries=options.retries)


def _engine(options: ReproduceOptions, idle: bool) -> "Engine":
    """The engine asked for; where there is nothing to do, the one that costs nothing to start."""
    if options.engine == "local" or idle:
        from scalednl.lab.sweep.engine_local import LocalEngine

        return LocalEngine(options.jobs)
    from scalednl.lab.sweep.engine_ray import RayEngine

    return RayEngine(
        options.folder,
        address=options.address,
        cpus=options.cpus,
        gpus=options.gpus,
    )


def _tell(plan: "Plan", summary: "Summary") -> None:
    """What came out, what did not and why, and how to go on."""
    from scalednl.lab.console import emit
    from scalednl.lab.records.failure import LOG, log_tail

    paths = {run.name: run.path for run in plan.runs}
    for name, message in summary.failed.items():
        emit(f"failed: {name}: {message}")
        tail = log_tail(paths[name])
        if tail:
            emit(f"  the end of {paths[name] / LOG}:")
            for line in tail:
                emit(f"  | {line}")
    for name, message in summary.blocked.items():
        emit(f"blocked: {name}: {message}")
    bad = len(summary.failed) + len(summary.blocked)
    runs = "1 run" if len(plan.runs) == 1 else f"{len(plan.runs)} runs"
    emit(
        f"{runs}: {len(summary.done)} finished, {len(summary.diverged)} diverged, "
        f"{bad} failed, {len(summary.left)} left"
    )
    if summary.exit_code:
        emit(f"Go on with: {_typed()}")


def _typed() -> str:
    """The command as it was typed."""
    import shlex

    return shlex.join(["scalednl", *sys.argv[1:]])


def _is_recorded(path: Path) -> bool:
    """Whether a run's attention was looked at since it finished, on enough images."""
    from scalednl.lab.records.attention import FILE, read_attention
    from scalednl.lab.records.run import RunFolder

    folder = RunFolder(path)
    try:
        record = read_attention(folder.attention)
        made = (folder.attention / FILE).stat().st_mtime
        return (
            record is not None
            and record["images_scored"] >= IMAGES
            and made >= folder.weights.stat().st_mtime
        )
    except (CommandError, OSError):
        return False


def finish(
    runs: "Sequence[PlannedRun]", done: "Collection[str]", out: Path, root: Path | None
) -> Path:
    """Attention maps of the finished runs that Figure 1 needs, then the page; gives its path."""
    from scalednl.lab.attention.record import record_run
    from scalednl.lab.console import emit
    from scalednl.lab.report.write import write_report

    for run in runs:
        wanted = MAPS in run.artefacts and run.name in done
        if wanted and not _is_recorded(run.path):
            emit(f"{run.name}: looking at its attention")
            try:
                record_run(run.path, images=IMAGES, root=root)
            except Exception as error:
                # Hours of training stand behind the page: nothing here may keep it back.
                emit(f"{run.name}: its attention could not be looked at: {error}")
    return write_report([out], out / "report.html")
