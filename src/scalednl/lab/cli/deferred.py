"""Commands that are parsed first and called later."""

from collections.abc import Callable
from functools import partial, wraps
from typing import ParamSpec

Options = ParamSpec("Options")


def deferred(command: Callable[Options, None]) -> Callable[Options, Callable[[], None]]:
    """The command with its options bound, to be called by `main`; tests only parse."""

    @wraps(command)
    def bound(*args: Options.args, **kwargs: Options.kwargs) -> Callable[[], None]:
        return partial(command, *args, **kwargs)

    return bound
