"""Errors of the command line: one sentence instead of a traceback."""


class CommandError(Exception):
    """What could not be done, in one sentence: what, where, and what to do. Exit code 1."""


class UsageError(CommandError):
    """A mistake in what was asked for, in one sentence for the person who made it. Exit code 2."""
