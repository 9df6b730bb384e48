"""Fixtures of tests that run benchmarks."""

from tests.lab.bench.builders import show, threads

__all__ = ["show", "threads"]
