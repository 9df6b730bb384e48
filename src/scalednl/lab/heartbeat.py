"""Signs of life of long work, for the process that waits for it.

Loops call `beat`; inside `beating(path)` it touches that file now and then. A `Watch` over such
files reports work whose file has not changed for too long.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

NAME = ".heartbeat"
"""The file in a run directory"""
SECONDS = 2.0
"""Between two touches"""


@dataclass
class _Heart:
    path: Path | None = None
    touched: float = 0.0


_heart = _Heart()


@contextmanager
def beating(path: Path) -> Iterator[None]:
    """Let `beat` touch this file while the block runs, and remove it afterwards."""
    before, _heart.path, _heart.touched = _heart.path, path, 0.0
    try:
        beat()
        yield
    finally:
        _heart.path = before
        with suppress(OSError):
            path.unlink(missing_ok=True)


def beat() -> None:
    """Report that work continues; nothing is written without `beating`."""
    if _heart.path is None or time.monotonic() - _heart.touched < SECONDS:
        return
    _heart.touched = time.monotonic()
    with suppress(OSError):
        _heart.path.touch()


class Watch:
    """Notices work without a sign of life, by the clock of this process alone."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: dict[str, tuple[int, float]] = {}

    def silent(self, work: Mapping[str, Path]) -> list[str]:
        """Names of work whose file has not changed for the stated time; others are forgotten."""
        now = time.monotonic()
        self._seen = {name: seen for name, seen in self._seen.items() if name in work}
        for name, path in work.items():
            changed = _changed(path)
            if self._seen.get(name, (None, now))[0] != changed:
                self._seen[name] = changed, now
        return [name for name, (_, since) in self._seen.items() if now - since >= self._seconds]

    def forget(self, names: Iterable[str]) -> None:
        """Start anew with these."""
        for name in names:
            self._seen.pop(name, None)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
