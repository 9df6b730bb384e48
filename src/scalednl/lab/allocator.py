"""The C library's allocator, set so that memory that was freed is kept for the next step.

glibc returns large blocks to the system when they are freed. A training step frees and allocates
the same sizes again, and each time the system must map and clear every page: one minor page fault
per 4 KiB. With `M_MMAP_MAX` 0 and `M_TRIM_THRESHOLD` -1 (mallopt(3)) freed memory stays in the
process, and a step after the first takes hardly any faults. Results are the same, bit for bit. The
process holds its largest memory until it ends; `release_memory` returns what is free.
"""

import ctypes
import os
from dataclasses import dataclass
from typing import Literal

TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
"""Names of mallopt's parameters in malloc.h"""
SETTINGS = {MMAP_MAX: 0, TRIM_THRESHOLD: -1, TOP_PAD: 1 << 28}
"""No block is mapped on its own, the heap never shrinks, and grows by 256 MiB of addresses"""

AllocatorState = Literal["kept", "default", "own", "other"]
"""`kept`: freed memory stays in the process; `default`: glibc's own settings, as asked for; `own`:
the user chose an allocator or its settings; `other`: not glibc, or it refused"""


@dataclass(frozen=True)
class Allocator:
    """The allocator that a process computes with."""

    state: AllocatorState
    detail: str = ""
    """What the user set, or which system has no such settings"""

    def __str__(self) -> str:
        return _WORDS[self.state] + (f" ({self.detail})" if self.detail else "")


_WORDS: dict[AllocatorState, str] = {
    "kept": "freed memory is kept for the next step",
    "default": "glibc's default, freed memory is returned to the system",
    "own": "as set by you, left unchanged",
    "other": "the system's, left unchanged",
}
_current: Allocator | None = None


def keep_memory(keep: bool = True) -> Allocator:
    """Have this process keep freed memory, unless the user has chosen otherwise.

    The first call decides. glibc cannot return to its own settings, which adapt to the program.
    """
    global _current
    if _current is None or (keep and _current.state == "default"):
        _current = _decide(keep)
    return _current


def current_allocator() -> Allocator | None:
    """What `keep_memory` decided; None before its first call."""
    return _current


def release_memory() -> None:
    """Return free memory to the system now, which a process that keeps it does not do itself."""
    if _current is not None and _current.state == "kept":
        ctypes.CDLL(None).malloc_trim(0)


def _decide(keep: bool) -> Allocator:
    chosen = chosen_by_user()
    if chosen:
        return Allocator("own", chosen)
    if not _is_glibc():
        return Allocator("other", "not glibc")
    if not keep:
        return Allocator("default")
    mallopt = ctypes.CDLL(None).mallopt
    if not all(mallopt(name, value) for name, value in SETTINGS.items()):
        return Allocator("other", "mallopt refused")
    return Allocator("kept")


def chosen_by_user() -> str:
    """The variables and libraries by which the user has chosen an allocator, or ""."""
    found = sorted(name for name in os.environ if name.startswith("MALLOC_"))
    if "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        found.append("GLIBC_TUNABLES")
    if _is_glibc() and not _mallocs_with_glibc():
        found.append("another malloc is loaded")
    return ", ".join(found)


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):
        return False


class _Mallinfo2(ctypes.Structure):
    """What glibc counts of its allocations, in the order of malloc.h."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _mallocs_with_glibc(size: int = 1 << 20) -> bool:
    """Whether glibc counts a block that this process allocates.

    Addresses of functions do not tell: in some builds of Python that of `malloc` is an entry of the
    program's own table. glibc before 2.33 has no such count and is taken to be in use.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return True
    library.mallinfo2.restype = _Mallinfo2
    library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    before = library.mallinfo2()
    block = library.malloc(ctypes.c_size_t(size))
    after = library.mallinfo2()
    library.free(block)
    return after.uordblks + after.hblkhd >= before.uordblks + before.hblkhd + size
