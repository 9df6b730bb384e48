"""One benchmark from start to finish: fixed threads and seed, progress, tables, record, charts."""

import os
import re
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from rich.console import Console

from scalednl.errors import CommandError, UsageError
from scalednl.files import write_json, write_text
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.records import Origin, origin

BUSY = 0.5
"""Processes that wanted to run in the last minute, a core: above it, times say little"""


class Session:
    """Fixes what a measurement depends on when it is made, and keeps the result when it ends."""

    def __init__(self, name: str, options: BenchOptions) -> None:
        self.name, self.options = name, options
        self.device = options.device
        if self.device.startswith("cuda") and not torch.cuda.is_available():
            raise UsageError(f"--device {self.device} is not there: torch sees no GPU; use cpu")
        if options.threads is not None:
            torch.set_num_threads(options.threads)
        torch.manual_seed(0)
        self.origin: Origin = origin(threads=torch.get_num_threads())
        self._start = time.perf_counter()
        self._progress = Console(stderr=True, highlight=False)
        where = self.origin.machine
        if self.device.startswith("cuda"):
            where = torch.cuda.get_device_name(self.device)
        self.load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        versions = f"torch {torch.__version__}, float32"
        print(f"{where}, {self.origin.threads} threads, {versions}\n", flush=True)
        if self.load is not None and self.load > BUSY * self.origin.cores:
            self._progress.print(
                f"Others are at work here (load {self.load:.1f} on {self.origin.cores} cores): "
                "expect a wide spread.",
                soft_wrap=True,
            )

    def step(self, text: str) -> AbstractContextManager[object]:
        """Say what is being measured: a spinner for a person, a line for a log."""
        if self._progress.is_terminal:
            return self._progress.status(f"{text} ...")
        self._progress.print(f"{text} ...", soft_wrap=True)
        return nullcontext()

    def finish(self, result: Mapping[str, Any], charts: Mapping[str, str]) -> None:
        """Write the record and its charts where a folder was given, and say how long it took."""
        seconds = time.perf_counter() - self._start
        folder = self.options.out
        if folder is None:
            print(f"{seconds:.0f} s. With --out FOLDER the numbers and the chart are kept.")
            return
        record = {
            "schema": f"scalednl.bench.{self.name}.v1",
            "origin": self.origin.as_dict(),
            "device": self.device,
            "quick": self.options.quick,
            "seconds": round(seconds, 1),
            "load_at_start": self.load,
            **result,
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / f"{self._file_name(self.name)}.json", record)
            for name, chart in charts.items():
                write_text(folder / f"{self._file_name(name)}.svg", chart)
        except OSError as error:
            raise CommandError(f"--out {folder} cannot be written: {error.strerror}") from error
        names = [f"{self._file_name(self.name)}.json"]
        names += [f"{self._file_name(name)}.svg" for name in charts]
        print(f"{seconds:.0f} s. Written to {folder}: {', '.join(names)}")

    def _file_name(self, name: str) -> str:
        """What was measured, when, on what: so that results of machines lie side by side."""
        where = self.origin.machine
        if self.device.startswith("cuda"):
            where = torch.cuda.get_device_name(self.device)
        quick = "_quick" if self.options.quick else ""
        return f"{name}{quick}_{self.origin.date[:10]}_{slug(where)}_{self.origin.threads}-threads"


def slug(machine: str) -> str:
    """A processor's name as part of a file's: "Intel(R) Xeon(R) CPU @ 2.80GHz" without ornament."""
    plain = re.sub(r"\((R|TM|C)\)|\b(CPU|Processor)\b", " ", machine, flags=re.I)
    return re.sub(r"[^a-z0-9.]+", "-", plain.lower()).strip("-") or "unknown"
