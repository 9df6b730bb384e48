"""Files of a user's own on the command line: executed before a command is parsed."""

from collections.abc import Iterator
from pathlib import Path

from scalednl.errors import UsageError
from scalednl.lab.user_code import split_reference

CODE, MODEL = "--code", "--model"


def load_own_code(arguments: list[str]) -> list[str]:
    """Execute the files of `--code FILE.py` and `--model FILE.py:FUNCTION`.

    Returns the arguments without the former, and with the name of the network in the latter.
    """
    left: list[str] = []
    for option, value in _options(arguments):
        if option == CODE:
            from scalednl.lab.training.networks import register_networks

            if not value:
                raise UsageError("--code must name a file, such as --code my_file.py")
            register_networks(Path(value))
        else:
            left += [option] if value is None else [option, _registered(value)]
    return left


def _options(arguments: list[str]) -> Iterator[tuple[str, str | None]]:
    """Every argument, those of the two options with their value."""
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name in (CODE, MODEL):
            found = value if equals else next(rest, None)
            yield name, "" if found is None and name == CODE else found
        else:
            yield argument, None


def _registered(value: str) -> str:
    """The name of a network of the user's own; any other value as it is."""
    reference = split_reference(value)
    if reference is None:
        return value
    from scalednl.lab.training.networks import register_network

    return register_network(*reference)
