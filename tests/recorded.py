"""The records of runs in results/lite, for tests of tables and of pages."""

from scripts.result_tables import RUNS

RECORDED = sorted(RUNS.iterdir()) if RUNS.is_dir() else []
WITH_ATTENTION = [path for path in RECORDED if (path / "attention").is_dir()]
