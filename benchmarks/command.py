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
    description = sys.modules[run.__module__].__doc__
    try:
        print_goals(run(tyro.cli(BenchOptions, description=description)))
    except CommandError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(2)
