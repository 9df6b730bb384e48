"""The pictures of the pages in docs/images, from finished pages and the built site.

python -m scripts.screenshots runs/demo/report.html results/lite/report.html build/docs/index.html

Run `make demo` on a machine that does nothing else, and `make docs`, before.
"""

import sys
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Browser

from tests.lab.report.browser import launched, opened

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDE, PHONE = (1280, 1000), (390, 844)


class Shot(NamedTuple):
    """One picture."""

    page: int
    """Which of the pages: demonstration, results or site"""
    size: tuple[int, int]
    scheme: str
    anchor: str = ""
    """Where to scroll"""


SHOTS = {
    "report-light": Shot(0, WIDE, "light"),
    "report-dark": Shot(0, WIDE, "dark"),
    "report-phone-light": Shot(0, PHONE, "light"),
    "report-phone-dark": Shot(0, (390, 1700), "dark"),
    "report-claims": Shot(1, WIDE, "light"),
    "report-tables": Shot(1, (1280, 1300), "light", "#table1_importance"),
    "site-light": Shot(2, WIDE, "light"),
    "site-dark": Shot(2, WIDE, "dark"),
    "site-phone-light": Shot(2, PHONE, "light"),
    "site-phone-dark": Shot(2, PHONE, "dark"),
}


def main(pages: list[Path]) -> None:
    """Write all pictures of the pages that are given."""
    with launched() as browser:
        for name, shot in SHOTS.items():
            if shot.page < len(pages):
                target = IMAGES / f"{name}.png"
                _take(browser, pages[shot.page].resolve(), shot, target)
                Image.open(target).convert("RGB").save(target, optimize=True)
                print(target, target.stat().st_size)


def _take(browser: Browser, page_path: Path, shot: Shot, target: Path) -> None:
    width, height = shot.size
    options = {"viewport": {"width": width, "height": height}, "color_scheme": shot.scheme}
    # The site has styles and scripts of its own beside its pages.
    below = page_path.parent if shot.page == 2 else None
    with opened(browser, page_path, below=below, **options) as page:
        if shot.anchor:
            page.locator(shot.anchor).evaluate("e => e.scrollIntoView({behavior: 'instant'})")
        page.wait_for_timeout(300)
        page.screenshot(path=target)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
