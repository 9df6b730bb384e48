"""One sentence for a number that is too small."""

import math

from scalednl.errors import UsageError


def check_at_least(least: float, **options: float | None) -> None:
    """Raise unless every option that is given is a finite number of at least `least`."""
    for name, value in options.items():
        if value is not None and not (math.isfinite(value) and value >= least):
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} must be at least {least:g}, got {value}")
