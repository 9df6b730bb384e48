"""The pictures of the page in these documents: `python -m docs.screenshots PAGE`."""

import sys
from pathlib import Path

from PIL import Image

from tests.report.browser import launched, opened

IMAGES = Path(__file__).parent / "images"
SHOTS = {
    "report-light": {"width": 1180, "height": 1660, "scheme": "light"},
    "report-dark": {"width": 1180, "height": 1660, "scheme": "dark"},
    "report-phone-dark": {"width": 390, "height": 1700, "scheme": "dark"},
}


def main(page_path: Path) -> None:
    """Write them; palettes keep them small."""
    with launched() as browser:
        for name, shot in SHOTS.items():
            view = {"width": shot["width"], "height": shot["height"]}
            options = {"viewport": view, "color_scheme": shot["scheme"]}
            with opened(browser, page_path.resolve(), **options) as page:
                page.wait_for_timeout(300)
                target = IMAGES / f"{name}.png"
                page.screenshot(path=target)
            Image.open(target).convert("RGB").quantize(256).save(target, optimize=True)
            print(target, target.stat().st_size)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
