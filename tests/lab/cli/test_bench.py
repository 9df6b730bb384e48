"""`scalednl bench` as a person meets it."""

import re

import pytest

from tests.lab.cli.conftest import Refused, Run

COMMANDS = ("table3", "scaling", "orders")


def test_help_names_every_benchmark(run_here: Run) -> None:
    """`scalednl bench --help` lists what interests a user, and nothing that judges this project."""
    run = run_here("bench", "--help")
    assert run.returncode == 0
    listed = re.search(r"\{(.*?)\}", run.stdout)
    assert listed is not None
    assert set(listed[1].split(",")) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_benchmark_has_an_example_and_the_common_options(
    run_here: Run, command: str
) -> None:
    """Each says how it is called, and takes the same options."""
    run = run_here("bench", command, "--help")
    assert run.returncode == 0
    assert f"scalednl bench {command} --quick" in " ".join(run.stdout.split())
    for option in ("--quick", "--threads", "--repeats", "--out", "--device"):
        assert option in run.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table3", "--repeats", "3"], "--repeats must be at least 5, got 3"),
        (["table3", "--batch", "1"], "--batch must be at least 2, got 1"),
        (
            ["scaling", "--budget", "4GB"],
            "--budget must be a size such as 4GiB or 512MiB, got 4GB",
        ),
    ],
)
def test_mistakes_end_with_one_sentence(
    refused: Refused, arguments: list[str], sentence: str
) -> None:
    """Exit code 2, one line that repeats what was asked for."""
    refused(["bench", *arguments], 2, sentence)


def test_a_folder_that_cannot_be_written_is_said_so(refused: Refused) -> None:
    """A folder inside a file is refused before anything is measured."""
    refused(["bench", "orders", "--out", "README.md/results"], 2, "README.md/results")
