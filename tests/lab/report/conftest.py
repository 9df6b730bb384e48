"""One browser for all tests of the page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.lab.report.browser import launched


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, started once."""
    with launched() as running:
        yield running
