"""This machine: threads for torch; the memory, page faults and time of this process."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from scalednl.errors import UsageError

STATUS = Path("/proc/self/status")
AUTOGROUP = Path("/proc/self/autogroup")
"""Linux: the scheduling group of the session, and its niceness"""
TASKS = Path("/proc/self/task")
"""A folder per thread of this process, where there is Linux"""


def most_threads() -> int:
    """The largest number of threads that is accepted here."""
    return 4 * (os.cpu_count() or 1)


def check_threads(threads: int | None) -> None:
    """Raise unless torch can use so many threads here; None is its own default."""
    most = most_threads()
    if threads is not None and not 1 <= threads <= most:
        raise UsageError(f"--threads must be 1 to {most} on this machine, got {threads}")


def use_threads(threads: int | None) -> None:
    """Have torch compute with so many threads; None leaves its own default."""
    check_threads(threads)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def keep_niceness() -> None:
    """Give the niceness of this process to the scheduling group of its session.

    Linux shares the processor between sessions first (autogroup), so that a low priority counts
    only within one: a process that begins a session would have lost what `nice` gave it.
    """
    if AUTOGROUP.is_file() and (niceness := os.nice(0)) > 0:
        # Without the right to it, or with no room for another change now, the group stays as it is.
        with suppress(OSError):
            AUTOGROUP.write_text(str(niceness))


def peak_bytes(device: str) -> int | None:
    """The most memory used so far: of the GPU, else of this process; None if it is not known.

    On Linux it is read from /proc: `ru_maxrss` of a process that was started with exec begins with
    its parent's peak.
    """
    if device.startswith("cuda"):
        import torch

        return torch.cuda.max_memory_allocated(device)
    if STATUS.is_file():
        return _status("VmHWM")
    if sys.platform == "win32":
        return None
    import resource

    # macOS counts bytes, others kibibytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def current_bytes(device: str) -> int | None:
    """The memory in use now; from here on a GPU's peak counts. See `peak_bytes`."""
    if device.startswith("cuda"):
        import torch

        # A product starts CUDA, which the peak needs, and gets cuBLAS its workspace: no step's own.
        square = torch.ones(64, 64, device=device)
        torch.mm(square, square)
        del square
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    return _status("VmRSS") if STATUS.is_file() else peak_bytes(device)


def page_faults() -> int | None:
    """Minor page faults of this process so far; None where the system does not count them."""
    if sys.platform == "win32":
        return None
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _status(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{STATUS} has no {field}")


def share_waited(since: tuple[float, float] | None) -> float | None:
    """Share of the time since `core_seconds` in which threads waited for cores of others."""
    now = core_seconds()
    if now is None or since is None:
        return None
    ran, waited = (max(0.0, b - a) for a, b in zip(since, now, strict=True))
    return round(waited / (ran + waited), 4) if ran + waited > 0 else None


def core_seconds() -> tuple[float, float] | None:
    """Seconds that all threads ran, and waited for a core; None where Linux does not say.

    torch computes with several threads: if one of them waits, the others wait for it.
    """
    ran, waited = 0, 0
    try:
        for thread in TASKS.iterdir():
            counts = (thread / "schedstat").read_text().split()
            ran, waited = ran + int(counts[0]), waited + int(counts[1])
    except (OSError, ValueError, IndexError):
        return None
    return ran / 1e9, waited / 1e9


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
