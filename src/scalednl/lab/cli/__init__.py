"""The command line: `scalednl COMMAND`. One file per command; torch is imported when one runs."""

import errno
import signal
import sys
from collections.abc import Callable
from itertools import zip_longest
from typing import NoReturn

import tyro

from scalednl import __version__
from scalednl.errors import CommandError, UsageError
from scalednl.lab.cli.attention import attention
from scalednl.lab.cli.bench import bench
from scalednl.lab.cli.code_options import take_code
from scalednl.lab.cli.data import data
from scalednl.lab.cli.deferred import deferred
from scalednl.lab.cli.demo import demo
from scalednl.lab.cli.eval import evaluate
from scalednl.lab.cli.export import export
from scalednl.lab.cli.report import report
from scalednl.lab.cli.reproduce import reproduce
from scalednl.lab.cli.train import parse_train, train
from scalednl.lab.streams import discard, lasting_output, open_standard_streams

FOLDERS = ("--out", "--root", "--from")
"""Options that an empty text would turn into the current folder"""
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)
"""Errors of a file or terminal that takes no more output"""

app = tyro.extras.SubcommandApp()
app.command(bench, name="bench", help="Measure what the block costs on this machine.")
app.command(deferred(demo))
app.command(deferred(train))
app.command(name="eval")(deferred(evaluate))
app.command(deferred(attention))
app.command(deferred(reproduce))
app.command(data, name="data", help="Download, verify, list and show data sets.")
app.command(deferred(report))
app.command(deferred(export))


def parse(arguments: list[str]) -> Callable[[], None]:
    """The command that the arguments name, with its options: a function without arguments."""
    for option, value in zip_longest(arguments, arguments[1:]):
        name = option.removesuffix("=") if option.endswith("=") else option
        if name in FOLDERS and (value == "" or name != option):
            raise UsageError(f"{name} must name a folder, got an empty text")
    arguments = take_code(arguments)
    if arguments[:1] == ["train"]:
        # The recipe decides the defaults of all other options.
        return parse_train(arguments[1:])
    description = "Exact softmax-free non-local blocks for PyTorch."
    command: Callable[[], None] = app.cli(prog="scalednl", description=description, args=arguments)
    return command


def main() -> None:
    """Run the command line; a mistake ends with a sentence and exit code 2, a failure with 1."""
    open_standard_streams()
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"scalednl {__version__}")
        return
    try:
        parse(sys.argv[1:])()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone away, as `head` does; what Python flushes at the end goes nowhere.
        discard(sys.stdout)
        sys.exit(128 + signal.SIGPIPE)
    except CommandError as problem:
        _fail(str(problem), 2 if isinstance(problem, UsageError) else 1)
    except KeyboardInterrupt:
        _fail("interrupted", 128 + signal.SIGINT)
    except OSError as problem:
        if problem.filename is not None or problem.errno not in OUTPUT_ERRORS:
            raise
        discard(sys.stdout)
        _fail(f"could not write the output: {problem.strerror}", 1)


def _fail(sentence: str, code: int) -> NoReturn:
    with lasting_output():
        print(f"scalednl: {sentence}", file=sys.stderr)
    sys.exit(code)
