"""The command line as a person meets it: real processes."""

import re
import subprocess
import sys

import pytest

from tests.support import run_scalednl


def test_help_names_the_commands_and_does_not_load_torch() -> None:
    """--help answers with the commands, before torch is imported."""
    run = run_scalednl("--help")
    assert run.returncode == 0
    assert "demo" in run.stdout
    code = "import sys, scalednl.lab.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_of_a_command_has_an_example() -> None:
    """A command's help shows how to call it."""
    run = run_scalednl("demo", "--help")
    assert run.returncode == 0
    assert "scalednl demo --threads 1" in " ".join(run.stdout.split())


def test_version() -> None:
    """--version prints the version."""
    assert run_scalednl("--version").stdout.startswith("scalednl 0.")


@pytest.mark.parametrize(
    "arguments", [["dmeo"], ["demo", "--threads", "x"], [], ["demo", "--thread=1"]]
)
def test_mistakes_exit_with_2_and_no_traceback(arguments: list[str]) -> None:
    """A mistake in the arguments ends with exit code 2 and a sentence."""
    run = run_scalednl(*arguments)
    assert run.returncode == 2
    assert run.stderr.strip() or run.stdout.strip()
    assert "Traceback" not in run.stderr


def test_a_senseless_value_is_named() -> None:
    """--threads 0 is refused in one line that repeats it."""
    run = run_scalednl("demo", "--threads", "0")
    assert run.returncode == 2
    assert re.fullmatch(
        r"scalednl: --threads must be 1 to \d+ on this machine, got 0\n", run.stderr
    )
