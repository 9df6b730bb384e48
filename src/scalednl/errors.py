"""Errors that are one sentence, and other people's errors in one line."""


class CommandError(Exception):
    """What could not be done, in one sentence: what, where, and what to do. Exit code 1."""


class UsageError(CommandError):
    """A mistake in what was asked for, in one sentence for the person who made it. Exit code 2."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def described(error: BaseException) -> str:
    """An error of somebody else's code in one line: its type, and the first line it has."""
    lines = str(error).strip().splitlines() or ["no details"]
    return f"{type(error).__name__}: {lines[0]}"
