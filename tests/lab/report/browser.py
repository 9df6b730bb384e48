"""Chromium for tests of the page: nothing leaves it, and nothing it complains of goes unseen."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, Route, sync_playwright

ARGUMENTS = [
    *("--no-sandbox", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--disable-domain-reliability", "--no-pings"),
    "--host-resolver-rules=MAP * ~NOTFOUND",
]


def chromium() -> str:
    """The browser's path; tests that need it skip without."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser that is ended with the tests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, path: Path, *, below: Path | None = None, **options: Any
) -> Iterator[Page]:
    """The page from disk; fails at its end if it logged an error or asked for anything else.

    A page of a site may also ask for files `below` the site's folder.
    """
    context = browser.new_context(**options)
    page = context.new_page()
    complaints: list[str] = []

    def only_this_file(route: Route, request: Request) -> None:
        allowed = request.url.startswith(("data:", "blob:")) or request.url == path.as_uri()
        if below is not None:
            allowed = allowed or request.url.startswith(f"{below.as_uri()}/")
        if not allowed:
            complaints.append(f"asked for {request.url}")
            route.abort()
            return
        route.continue_()

    page.route("**/*", only_this_file)
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.goto(path.as_uri())
    try:
        yield page
    finally:
        context.close()
    assert not complaints, complaints
