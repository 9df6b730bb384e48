"""Where a number comes from: every result carries its origin."""

import os
import platform
import shlex
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from scalednl import __version__
from scalednl.lab.allocator import Allocator, current_allocator

KIND = {"family": "cpu family", "model": "model", "stepping": "stepping"}
"""What tells processors of one name apart, and its name in /proc/cpuinfo"""
PACKAGES = ("torch", "numpy", "lightning-fabric")
PROGRAMS = ("src", "benchmarks", "scripts")
"""Folders of a checkout with code that makes results"""


@dataclass(frozen=True)
class Origin:
    """The program, machine and moment that made a result; empty where a file does not say."""

    date: str = ""
    """UTC, to the second"""
    scalednl: str = ""
    commit: str | None = None
    """The checkout's, with "-dirty" if its code had changes; None if it is not a checkout"""
    python: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    machine: str = ""
    """The processor's name"""
    system: str = ""
    cores: int = 0
    threads: int | None = None
    command: str = ""
    """As typed; the program and absolute paths by their last part alone"""
    allocator: Allocator | None = None
    """How memory was allocated; None where a file does not say, or nothing was computed"""


def origin(threads: int | None = None) -> Origin:
    """The origin of what is being made now; `threads` are those torch computes with."""
    return Origin(
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        scalednl=__version__,
        commit=_commit(),
        python=platform.python_version(),
        packages=_versions(),
        machine=_processor(),
        system=f"{platform.system()} {platform.machine()}",
        cores=os.cpu_count() or 1,
        threads=threads,
        command=_command(),
        allocator=current_allocator(),
    )


def _command() -> str:
    """Quoted for a shell; of absolute paths only the last part, because the rest is private."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    typed = [f".../{Path(word).name}" if os.path.isabs(word) else word for word in sys.argv[1:]]
    return shlex.join([name, *typed]).encode("utf-8", "backslashreplace").decode()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _commit() -> str | None:
    """The commit of the checkout this package runs from, if it runs from one.

    It is marked as "-dirty" if code was changed since: the package, or programs that use it.
    Records and pages beside it do not count.
    """
    package = Path(__file__).parent
    try:
        # A checkout knows this very file; an installed copy inside another project does not.
        _git(package, "ls-files", "--error-unmatch", Path(__file__).name)
        commit = _git(package, "rev-parse", "--short=12", "HEAD")
        top = package.parents[3]
        changed = _git(top, "status", "--porcelain", "--untracked-files=no", "--", *PROGRAMS)
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}-dirty" if changed else commit


def _git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return run.stdout.strip()


def _processor() -> str:
    """Its name with family, model and stepping: two of one name may round differently."""
    found: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            found.setdefault(name.strip(), value.strip())
    if "model name" not in found:
        return platform.processor() or platform.machine()
    kind = [f"{name} {found[key]}" for name, key in KIND.items() if key in found]
    return f"{found['model name']} ({', '.join(kind)})" if kind else found["model name"]
