"""One benchmark from start to finish: fixed threads and seed, progress, tables, record, charts."""

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from rich.console import Console

from scalednl.errors import UsageError
from scalednl.files import write_text, writing_to
from scalednl.lab.allocator import keep_memory, release_memory
from scalednl.lab.bench.allocators import BothTimings, timings_with_both
from scalednl.lab.bench.limit import machine_limit
from scalednl.lab.bench.measure import Steps
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.console import counted
from scalednl.lab.machine import core_seconds, share_waited, use_threads
from scalednl.lab.records import origin
from scalednl.lab.records.bench import BUSY_LOAD, SCHEMA, BenchRecord
from scalednl.lab.records.typed_json import write_record


class Session:
    """Fixes what a measurement depends on when it starts, and keeps the result when it ends."""

    def __init__(self, name: str, options: BenchOptions, precision: str = "float32") -> None:
        self.name, self.options = name, options
        self.device = options.device
        if self.device.startswith("cuda") and not torch.cuda.is_available():
            raise UsageError(f"--device {self.device}: torch finds no GPU here; use cpu")
        use_threads(options.threads)
        allocator = keep_memory(options.keep_memory)
        torch.manual_seed(0)
        if self.device.startswith("cuda"):
            use_float32()
        self.origin = origin(threads=torch.get_num_threads())
        self._start, self._cores = time.perf_counter(), core_seconds()
        self._twins_waited: list[float] = []
        self.limit = machine_limit(self.device)
        self._progress = Console(stderr=True, highlight=False)
        self._load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        versions = f"torch {torch.__version__}, {precision}"
        threads = counted(torch.get_num_threads(), "thread")
        print(f"{self._where()}, {threads}, {versions}")
        print(f"Limit here: {self.limit}. Memory: {allocator}.\n", flush=True)
        if self._load is not None and self._load > BUSY_LOAD * self.origin.cores:
            self._warn(
                f"The machine is busy (load {self._load:.1f} on {self.origin.cores} cores): "
                "expect a wide spread."
            )

    def step(self, text: str) -> AbstractContextManager[object]:
        """Report what is being measured: a spinner for a person, a line for a log."""
        release_memory()
        if self._progress.is_terminal:
            return self._progress.status(f"{text} ...")
        self._warn(f"{text} ...")
        return nullcontext()

    def timings_with_both(
        self, steps: Steps, prepare: Callable[..., Steps], *arguments: Any, repeats: int
    ) -> BothTimings:
        """Times with both settings of the allocator; where the twin waited, this process did."""
        both = timings_with_both(steps, prepare, *arguments, repeats=repeats, device=self.device)
        if both.waited is not None:
            self._twins_waited.append(both.waited)
        return both

    def header(self) -> dict[str, Any]:
        """The fields that every record has, when the measurement is complete."""
        return {
            "schema": f"{SCHEMA}{self.name}.v1",
            "origin": self.origin,
            "device": self.device,
            "gpu": self._where() if self.device.startswith("cuda") else None,
            "quick": self.options.quick,
            "seconds": round(time.perf_counter() - self._start, 1),
            "load_at_start": self._load,
            "waited": self._waited(),
            "limit": self.limit,
            "limit_at_end": machine_limit(self.device),
        }

    def finish(self, record: BenchRecord, charts: Mapping[str, str]) -> None:
        """Write the record and its charts if a folder was given, and report how long it took."""
        if record.is_disturbed:
            self._warn(f"The machine was busy: {record.disturbance}. These times decide no claim.")
        folder = self.options.out
        if folder is None:
            print(f"{record.seconds:.0f} s. --out FOLDER keeps the numbers and the chart.")
            return
        name = self._file_name(self.name, "json")
        drawn = {self._file_name(chart, "svg"): svg for chart, svg in charts.items()}
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_record(folder / name, record)
            for chart, svg in drawn.items():
                write_text(folder / chart, svg)
        print(f"{record.seconds:.0f} s. Written to {folder}: {', '.join([name, *drawn])}")

    def _warn(self, text: str) -> None:
        self._progress.print(text, soft_wrap=True)

    def _waited(self) -> float | None:
        """Share of the time in which threads could have run, but others had their cores."""
        waited = share_waited(self._cores)
        return None if waited is None else max([waited, *self._twins_waited])

    def _where(self) -> str:
        on_gpu = self.device.startswith("cuda")
        return torch.cuda.get_device_name(self.device) if on_gpu else self.origin.machine

    def _file_name(self, name: str, ending: str) -> str:
        """What was measured, when and on which machine."""
        quick = "_quick" if self.options.quick else ""
        made = f"{self.origin.date[:10]}_{slug(self._where())}_{self.origin.threads}-threads"
        return f"{name}{quick}_{made}.{ending}"


def use_float32() -> None:
    """Have a GPU multiply in float32, in products and in convolutions.

    torch's default is TF32 in convolutions alone: methods made of them would run on faster units,
    with errors of 1e-3, beside others made of products.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False


def slug(machine: str) -> str:
    """A processor's name as part of a file's: "Intel(R) Xeon(R) CPU @ 2.80GHz" without ornament."""
    plain = re.sub(r"\((R|TM|C)\)|\b(CPU|Processor)\b", " ", machine, flags=re.I)
    return re.sub(r"[^a-z0-9.]+", "-", plain.lower()).strip("-") or "unknown"
