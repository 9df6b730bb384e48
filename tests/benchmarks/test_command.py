"""`python -m benchmarks.NAME` as a person meets it, and `make bench`."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = (
    *("peers", "planner", "training_loop", "inference", "export", "deployment"),
    "half_precision",
)


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("name", OWN)
def test_help_names_the_common_options(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each benchmark describes itself and takes the options of `scalednl bench`."""
    module = f"benchmarks.{name}"
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    # runpy warns of a module that was imported before.
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as left:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert not left.value.code
    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: python -m {module} ")
    for option in ("--quick", "--threads", "--repeats", "--out", "--device"):
        assert option in printed


def test_mistakes_end_with_one_sentence() -> None:
    """Exit code 2 and one line."""
    run = _python("benchmarks.planner", "--repeats", "4")
    assert run.returncode == 2
    assert run.stderr == "benchmarks: --repeats must be at least 5, got 4\n"


def test_make_bench_runs_every_benchmark() -> None:
    """All of this folder, the three of the command line, and then the goals of their records."""
    makefile = (ROOT / "Makefile").read_text()
    found = re.search(r"^bench: .*\n((?:\t.*\n)+)", makefile, re.M)
    assert found is not None
    assert set(re.findall(r"scalednl bench (\w+)", found[1])) == {"orders", "table3", "scaling"}
    assert re.findall(r"benchmarks\.(\w+)", found[1])[-1] == "goals"
    assert set(re.findall(r"benchmarks\.(\w+)", found[1])) == {*OWN, "goals"}
