"""The records of runs in results/lite and the pages about them, for tests of both."""

from scalednl.lab.records.runs import RunRecord
from scripts.result_tables import RUNS
from scripts.results import PAGES

RECORDED = sorted(RUNS.iterdir()) if RUNS.is_dir() else []
WITH_ATTENTION = [path for path in RECORDED if (path / "attention").is_dir()]


def words_of(page: str) -> str:
    """The text of a page, with one space between words."""
    return " ".join(PAGES[page].read_text(encoding="utf-8").split())


def error_of(run: RunRecord) -> float:
    """The test error of a run that has finished."""
    assert run.last_error is not None
    return run.last_error
