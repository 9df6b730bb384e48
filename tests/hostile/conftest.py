"""The counts at the end."""

import pytest

from tests.hostile.attacked import COUNTS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was refused and made, where these tests ran in this process."""
    for what, count in sorted(COUNTS.items()):
        terminalreporter.write_line(f"hostile: {count} {what}")
