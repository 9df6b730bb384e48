"""Tests mirror the package: what is in src/scalednl/a/b.py is tested in tests/a/test_b.py."""

from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "scalednl"

WITHOUT_TESTS = {
    "lab/data/data_set": "what a data set must define: types alone",
}
"""Modules that need no tests of their own, and why"""
ELSEWHERE = {"models/export": "traced/test_export"}
"""Modules that cannot be tested where shapes are checked"""
WHOLE_PROJECT = {
    *("test_base_install", "test_distributed", "test_docs", "test_floor", "test_imports"),
    *(
        "test_generated_prose",
        "test_mirror",
        "test_model_cards",
        "test_packaging",
        "test_results",
        "test_results_prose",
        "test_traced",
    ),
}
ACROSS_MODULES = {
    *("blocks/test_bias", "blocks/test_conditions", "blocks/test_gpu"),
    *(
        "blocks/test_masks_and_keys",
        "blocks/test_norm_layer",
        "blocks/test_one_image",
        "blocks/test_range",
    ),
    *("blocks/test_regressions", "blocks/test_reset", "models/test_zero_init"),
    *("lab/bench/test_regression_guard", "lab/cli/test_main", "lab/data/test_fuzz"),
    *("lab/data/test_real", "lab/paper/test_promise", "lab/report/test_hostile"),
    *("lab/report/test_torch_free", "lab/training/test_golden_losses"),
    *("lab/training/test_attacks", "lab/training/test_damaged_runs"),
    *("lab/training/test_fine_tuning", "lab/training/test_processes"),
}
"""Claims about several modules together, beside them"""
OTHER_FOLDERS = ("benchmarks", "hostile", "peers", "traced")
"""Tests of benchmarks/, attacks, comparisons with other packages, what runs without shape checks"""


def _modules() -> set[str]:
    """Every module but packages' `__init__` and `__main__`."""
    files = (path for path in SOURCE.rglob("*.py") if not path.stem.startswith("__"))
    return {path.relative_to(SOURCE).with_suffix("").as_posix() for path in files}


def _tests() -> set[str]:
    return {path.relative_to(TESTS).with_suffix("").as_posix() for path in TESTS.rglob("test_*.py")}


def _test_of(module: str) -> str:
    folder, _, name = module.rpartition("/")
    return ELSEWHERE.get(module, f"{folder}/test_{name}" if folder else f"test_{name}")


def test_every_module_has_its_test_file() -> None:
    """A new module comes with one; the lists above name modules that exist and have none."""
    without = {module for module in _modules() if _test_of(module) not in _tests()}
    assert without == WITHOUT_TESTS.keys()


def test_every_test_file_belongs_to_a_module() -> None:
    """A test file is named after a module, or it is in a list above, which names existing files."""
    found = {name for name in _tests() if name.partition("/")[0] not in OTHER_FOLDERS}
    across = found - {_test_of(module) for module in _modules()}
    assert across == WHOLE_PROJECT | ACROSS_MODULES
