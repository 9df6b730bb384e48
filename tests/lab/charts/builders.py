"""Reading charts back."""

from xml.etree import ElementTree

from scalednl.lab.charts import svg

SVG = "{http://www.w3.org/2000/svg}"


def parsed(chart: str) -> ElementTree.Element:
    """The elements of a chart; nothing of it is outside of its picture or no number."""
    root = ElementTree.fromstring(chart)
    _, _, width, height = (float(v) for v in root.get("viewBox", "").split())
    for element in root.iter():
        for name in ("x", "x1", "x2"):
            assert 0 <= float(element.get(name, 0)) <= width
        for name in ("y", "y1", "y2"):
            assert 0 <= float(element.get(name, 0)) <= height
    assert "nan" not in chart
    return root


def texts(chart: str) -> dict[str, tuple[float, float]]:
    """Every text of a chart with its place."""
    found = parsed(chart).iter(f"{SVG}text")
    return {one.text or "": (float(one.get("x", 0)), float(one.get("y", 0))) for one in found}


def assert_self_contained(chart: str, title: str) -> None:
    """Assert that it reads its title out, follows the colour scheme, and fetches nothing."""
    assert parsed(chart).get("aria-label") == title
    assert "prefers-color-scheme:dark" in chart
    assert all(f"--{colour}:" in chart for colour in svg.COLOURS)
    for fetched in ("href", "url(", "@import", "<script", "<image"):
        assert fetched not in chart
