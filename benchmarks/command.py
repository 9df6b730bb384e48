"""The command line that all benchmarks of this folder share."""

import sys
from collections.abc import Callable

import tyro

from benchmarks.goals import print_goals
from scalednl.errors import CommandError
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.records.bench import BenchRecord


def main(run: Callable[[BenchOptions], BenchRecord]) -> None:
    """Parse the options, run a benchmark, and print the goals of its record."""
    module = sys.modules[run.__module__]
    name = f"python -m {module.__spec__.name if module.__spec__ else run.__module__}"
    try:
        print_goals(run(tyro.cli(BenchOptions, prog=name, description=module.__doc__)))
    except CommandError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(2)
