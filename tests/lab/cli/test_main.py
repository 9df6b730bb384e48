"""The command line as a person meets it: real processes."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.lab.cli.conftest import Refused
from tests.support import run_scalednl

COMMANDS = ["bench", "demo", "train", "eval", "attention", "reproduce", "data", "report", "export"]


def test_help_describes_every_command() -> None:
    """--help lists exactly the nine commands, each with a description."""
    run = run_scalednl("--help")
    assert run.returncode == 0
    described = re.findall(r"^│ +• ([a-z]+) +[A-Z]\w+", run.stdout, re.M)
    assert described == COMMANDS


def test_help_does_not_load_torch() -> None:
    """--help ends before torch is imported."""
    code = """
import sys
from scalednl.lab.cli import main
sys.argv = ["scalednl", "--help"]
try:
    main()
finally:
    assert "torch" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_help_of_a_command_has_an_example() -> None:
    """A command's help shows how to call it."""
    run = run_scalednl("demo", "--help")
    assert run.returncode == 0
    assert "scalednl demo --threads 1" in " ".join(run.stdout.split())


@pytest.mark.parametrize(
    "arguments", ["train pairs-scaled --help", "reproduce table1_importance --plan --json"]
)
def test_a_reader_that_goes_away_is_no_traceback(arguments: str) -> None:
    """As with `scalednl ... | head -0`: no message, and the exit code of a broken pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "scalednl", *arguments.split()]
    run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert run.stderr == ""
    assert run.returncode == 128 + signal.SIGPIPE


def test_version() -> None:
    """--version prints the version."""
    assert run_scalednl("--version").stdout.startswith("scalednl 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dmeo"], "Unrecognized options: dmeo"),
        (["demo", "--threads", "x"], "Error parsing --threads"),
        ([], "Expected one of {bench, demo, train, eval, attention, reproduce, data, report, "),
        (["demo", "--thread=1"], "Perhaps you meant: --threads N"),
    ],
)
def test_mistakes_exit_with_2_and_name_what_is_wrong(arguments: list[str], said: str) -> None:
    """A mistake in the arguments ends with exit code 2, names it, and prints nothing else."""
    run = run_scalednl(*arguments)
    assert run.returncode == 2
    assert said in " ".join(run.stderr.replace("│", " ").split())
    assert "Traceback" not in run.stderr
    assert run.stdout == ""


def test_a_senseless_value_is_named() -> None:
    """--threads 0 is refused in one line that repeats it."""
    run = run_scalednl("demo", "--threads", "0")
    assert run.returncode == 2
    assert re.fullmatch(
        r"scalednl: --threads must be 1 to \d+ on this machine, got 0\n", run.stderr
    )


@pytest.mark.parametrize("option", [["--out", ""], ["--out="], ["--root", ""]])
def test_an_empty_folder_is_not_the_current_one(refused: Refused, option: list[str]) -> None:
    """As an unset variable in a script gives it: refused before anything is written."""
    name = option[0].removesuffix("=")
    refused(["train", "pairs-scaled", *option], 2, f"{name} must name a folder, got an empty text")


@pytest.mark.parametrize("arguments", ["train --list", "reproduce table1_importance --plan"])
def test_output_that_cannot_be_written_is_a_sentence(arguments: str) -> None:
    """What a command prints is its result: losing it is a failure, without a traceback."""
    command = [sys.executable, "-m", "scalednl", *arguments.split()]
    with open("/dev/full", "w") as full:
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == "scalednl: could not write the output: No space left on device\n"
