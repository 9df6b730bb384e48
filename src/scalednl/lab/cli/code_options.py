"""Files of a user's own on the command line, whatever the command.

| what is written | what happens |
|---|---|
| `--attention FILE.py:NAME`, `--block.attention FILE.py:NAME` | FILE is executed, NAME stays |
| `--model FILE.py:FUNCTION` | FILE is executed, FILE:FUNCTION stays |
| `--code FILE.py` | FILE is executed, nothing stays |
"""

from pathlib import Path

from scalednl.errors import UsageError
from scalednl.lab.user_code import load_attention, load_code, load_network, split_reference

CODE = "--code"
LOADERS = {
    "--attention": load_attention,
    "--block.attention": load_attention,
    "--model": load_network,
}


def take_code(arguments: list[str]) -> list[str]:
    """Execute the files that the arguments name; the arguments that are left to be parsed."""
    left: list[str] = []
    option = ""
    for argument in arguments:
        if option == CODE:
            load_code(Path(argument))
            option = ""
        elif argument.startswith("--"):
            option, equals, value = argument.partition("=")
            if option == CODE and equals:
                load_code(Path(value))
                option = ""
            elif option != CODE:
                left.append(f"{option}={_named(option, value)}" if equals else argument)
        else:
            left.append(_named(option, argument))
    if option == CODE:
        raise UsageError("--code must be followed by a Python file")
    return left


def _named(option: str, value: str) -> str:
    """The name that stands for FILE.py:NAME, after FILE was executed; any other value as it is."""
    found = split_reference(value)
    if found is None or option not in LOADERS:
        return value
    return LOADERS[option](*found)
