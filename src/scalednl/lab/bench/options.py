"""The options that every benchmark has. Imports no torch."""

import re
from dataclasses import dataclass
from pathlib import Path

from scalednl.errors import UsageError
from scalednl.lab.config.limits import check_at_least
from scalednl.lab.machine import check_threads
from scalednl.lab.records.timing import MIN_REPEATS

UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@dataclass(frozen=True)
class BenchOptions:
    """How to measure, and where to keep the result."""

    quick: bool = False
    """Smaller sizes and fewer of them: ends within 2 minutes on 2 cores."""
    threads: int | None = None
    """Processor threads for torch; its own default if not given. Recorded either way."""
    repeats: int | None = None
    """Runs of every step, taken in turns; at least 5, because fewer give no ratio."""
    out: Path | None = None
    """Folder for the record (JSON) and the charts (SVG); without it nothing is written."""
    device: str = "cpu"
    """Where to compute: cpu, or cuda."""
    keep_memory: bool = True
    """Keep freed memory for the next step (glibc); otherwise its default settings alone are
    measured."""

    def __post_init__(self) -> None:
        check_threads(self.threads)
        check_at_least(MIN_REPEATS, repeats=self.repeats)
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise UsageError(f"--device must be cpu, cuda or such as cuda:0, got {self.device}")
        for path in () if self.out is None else (self.out, *self.out.parents):
            if path.exists() and not path.is_dir():
                raise UsageError(f"--out must be a folder, got {self.out}: {path} is a file")

    def runs(self, usual: int, quick: int = MIN_REPEATS) -> int:
        """How many runs: those asked for, else `usual`, or `quick` with --quick."""
        return self.repeats or (quick if self.quick else usual)


def parse_bytes(text: str, option: str) -> int:
    """A size such as 4GiB, 512MiB or 1.5 GiB, in bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]iB|)", text.strip())
    size = int(float(found[1]) * UNITS[found[2]]) if found else 0
    if size < 1:
        raise UsageError(f"{option} must be a size such as 4GiB or 512MiB, got {text}")
    return size
