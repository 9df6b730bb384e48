"""How `make docs` builds the site from these pages and the docstrings."""

import re
from pathlib import Path
from typing import Any

from scalednl import __version__

DOCS = Path(__file__).parent

project = "scalednl"
release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
# `names` in docstrings become code, and links where they are documented.
default_role = "py:obj"
highlight_language = "none"
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
napoleon_custom_sections = [("Options", "params_style")]

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"scalednl {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
# Summaries are fetched, which browsers refuse for pages that are opened from disk.
html_show_search_summary = False

FOLDER_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#:]+)\)")
STAR = re.compile(r"(`[^`]*`)|\*")
AS_NONLOCAL2D = ("scalednl.NonLocal1d", "scalednl.NonLocal3d")


def leave_out_folders(_: Any, page: str, source: list[str]) -> None:
    """Links to folders of the repository, which the site does not contain, become their text."""

    def text(link: re.Match[str]) -> str:
        return link[1] if (DOCS / page).parent.joinpath(link[2]).is_dir() else link[0]

    source[0] = FOLDER_LINK.sub(text, source[0])


def link_pages(_: Any, __: Any, ___: str, content: list[str]) -> None:
    """Files beside docs/ that the site includes link to each other as its pages."""
    content[0] = content[0].replace("](ARCHITECTURE.md)", "](architecture.md)")


def plain_docstring(_: Any, __: str, name: str, ___: Any, ____: Any, lines: list[str]) -> None:
    """Stars in docstrings are products and `*space`, not emphasis; options are listed once."""
    lines[:] = [STAR.sub(lambda found: found[1] or r"\*", line) for line in lines]
    if name in AS_NONLOCAL2D:
        lines[1:] = ["", "Options and methods are those of `NonLocal2d`.", ""]


def plain_signature(
    _: Any, __: str, ___: str, ____: Any, _____: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """A default that a factory makes is `...`, which Sphinx can read."""
    return signature and signature.replace("<factory>", "..."), returns


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", leave_out_folders)
    app.connect("include-read", link_pages)
    app.connect("autodoc-process-signature", plain_signature)
    # Before napoleon, which reads the sections of a docstring.
    app.connect("autodoc-process-docstring", plain_docstring, priority=400)
