"""What is attacked, its limits, and how many inputs were refused."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LONG = int(os.environ.get("SCALEDNL_HOSTILE", "0"))
"""0: the short form; above: the long one, which repeats random attacks that many times"""
COUNTS: Counter[str] = Counter()
"""Inputs refused and pages made, which the end of the tests prints"""


@dataclass(frozen=True)
class Outcome:
    """How a process ended: what it said, and what it used."""

    code: int
    said: str
    seconds: float
    """Of the processor"""
    waited: float
    """By the clock, of a machine that may be busy"""
    megabytes: float

    def within(self, seconds: float, megabytes: float) -> bool:
        """Whether it ended by itself, without a traceback, within these limits."""
        return self.code in (0, 1) and self.seconds <= seconds and self.megabytes <= megabytes


class Attacked:
    """A server that runs one function after the other, each in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]", scratch: Path) -> None:
        self._process, self._said = process, scratch / "said"

    def call(self, name: str, *arguments: object) -> Outcome:
        """Call `module:function` with paths or texts."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._said.write_text("")
        job = [name, [os.fspath(a) if isinstance(a, Path) else str(a) for a in arguments]]
        self._process.stdin.write(json.dumps([*job, str(self._said)]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Outcome(said=self._said.read_text(), **answer)


@contextmanager
def serving(scratch: Path, *modules: str) -> Iterator[Attacked]:
    """A server that has imported these modules."""
    command = [sys.executable, "-m", "tests.hostile.fork_server", *modules]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Attacked(process, scratch)
