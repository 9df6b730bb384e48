"""Attacks, each in a process of its own whose time and memory the system counts.

The server imports what is attacked once and forks for every line of its input; so an attack costs
no start. Run as `python -m tests.hostile.fork_server MODULE ...`.
"""

import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

from scalednl.errors import CommandError

WALL_SECONDS = 240
"""After which a process that waits for something is ended"""
CPU_SECONDS = 20
ADDRESS_SPACE = 6 << 30
"""Beyond what the server has; larger attacks would harm the machine that tests"""


def attack(name: str, arguments: list[str], said: Path) -> None:
    """Call `module:function` and leave; what it answers or complains of is written to `said`."""
    signal.alarm(WALL_SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    module, _, function = name.partition(":")
    try:
        text, code = str(getattr(importlib.import_module(module), function)(*arguments)), 0
    except (CommandError, ValueError) as error:
        text, code = str(error), 1
    except BaseException:
        text, code = traceback.format_exc(), 3
    said.write_text(text, encoding="utf-8", errors="backslashreplace")
    os._exit(code)


def serve(modules: list[str]) -> None:
    """Answer every line `[name, arguments, said]` by one of exit code, seconds and megabytes."""
    for module in modules:
        importlib.import_module(module)
    for line in sys.stdin:
        name, arguments, said = json.loads(line)
        began = time.monotonic()
        child = os.fork()
        if not child:
            attack(name, arguments, Path(said))
        _, status, used = os.wait4(child, 0)
        answer = {
            "code": os.waitstatus_to_exitcode(status),
            "seconds": used.ru_utime + used.ru_stime,
            "waited": time.monotonic() - began,
            "megabytes": used.ru_maxrss / 1024,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1:])
