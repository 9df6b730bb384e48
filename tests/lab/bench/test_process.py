"""Fresh processes answer, and what goes wrong in them is a sentence."""

import os
from multiprocessing.connection import Connection

import pytest

from scalednl.errors import CommandError
from scalednl.lab.bench.process import FreshProcess


def _echo(connection: Connection, times: int) -> None:
    for _ in range(times):
        connection.send((connection.recv(), os.getpid()))


def _fail(_: Connection) -> None:
    raise RuntimeError("not enough memory\nwith details")


def _leave(_: Connection) -> None:
    os._exit(3)


def test_values_go_both_ways() -> None:
    """It is another process, and answers what it is sent."""
    with FreshProcess("echoing", _echo, 2) as process:
        for value in ("a", "b"):
            process.send(value)
            found, number = process.receive()
            assert found == value
            assert number != os.getpid()


def test_an_error_is_one_sentence() -> None:
    """The first line of what was raised, after what was being done."""
    with (
        pytest.raises(CommandError, match=r"^measuring: not enough memory$"),
        FreshProcess("measuring", _fail) as process,
    ):
        process.receive()


def test_an_end_without_an_answer_is_named() -> None:
    """The exit code is part of the sentence."""
    with (
        pytest.raises(CommandError, match="measuring ended with exit code 3"),
        FreshProcess("measuring", _leave) as process,
    ):
        process.receive()
