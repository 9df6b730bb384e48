"""The pictures of the report page in docs/images, from two finished pages.

python -m scripts.screenshots runs/demo/report.html results/lite/report.html
"""

import sys
from pathlib import Path

from PIL import Image

from tests.lab.report.browser import launched, opened

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SHOTS = {
    "report-light": (0, 1280, 1000, "light", ""),
    "report-dark": (0, 1280, 1000, "dark", ""),
    "report-phone-dark": (0, 390, 1700, "dark", ""),
    "report-claims": (1, 1280, 1000, "light", ""),
    "report-tables": (1, 1280, 1300, "light", "#table1_importance"),
}
"""Name -> which of the two pages, width, height, colours, and where to scroll"""


def main(pages: list[Path]) -> None:
    """Write all pictures."""
    with launched() as browser:
        for name, (which, width, height, scheme, anchor) in SHOTS.items():
            options = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
            with opened(browser, pages[which].resolve(), **options) as page:
                if anchor:
                    page.locator(anchor).evaluate("e => e.scrollIntoView({behavior: 'instant'})")
                page.wait_for_timeout(300)
                target = IMAGES / f"{name}.png"
                page.screenshot(path=target)
            Image.open(target).convert("RGB").save(target, optimize=True)
            print(target, target.stat().st_size)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
