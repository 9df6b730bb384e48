"""One sentence for a number that is too small, and one for a number that is too large."""

import math

from scalednl.errors import UsageError


def check_at_least(least: float, **options: float | None) -> None:
    """Raise unless every option that is given is a finite number of at least `least`."""
    for name, value in options.items():
        if value is not None and not (math.isfinite(value) and value >= least):
            flag = name.replace("_", "-")
            number = "" if math.isfinite(value) else "a finite number, "
            raise UsageError(f"--{flag} must be {number}at least {least:g}, got {value}")


def check_at_most(most: int, what: str, **options: int | None) -> None:
    """Raise if an option asks for more than there is of `what`, such as "test images"."""
    for name, value in options.items():
        if value is not None and value > most:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} must be at most {most}, the {what}, got {value}")
