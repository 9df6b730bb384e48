"""Generated parts of Markdown pages, between `<!-- NAME -->` and `<!-- end -->`."""

from collections.abc import Mapping


def with_parts(page: str, parts: Mapping[str, str]) -> str:
    """The page with every named part made anew."""
    for name, text in parts.items():
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not end:
            raise ValueError(f"the page has no part from <!-- {name} --> to <!-- end -->")
        page = f"{before}{start}{text}\n{end}{after}"
    return page
