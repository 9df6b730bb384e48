"""Imports go one way: the library never imports the lab, and each floor has an order of rooms."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "scalednl"
LIBRARY = [
    *("__init__", "errors", "attentions", "options", "config", "networks", "files"),
    *("safetensors_file", "ops", "blocks", "functional", "models", "inspection", "integrations"),
]
LAB = [
    *(
        "__init__",
        "console",
        "streams",
        "machine",
        "allocator",
        "signals",
        "heartbeat",
        "seeds",
        "stats",
        "counting",
        "user_code",
        "config",
    ),
    *("recipes", "records", "data", "paper", "training", "attention", "charts", "bench"),
    *("report", "sweep", "demo", "cli"),
]
ORDER = [*LIBRARY, *(f"lab.{room}" for room in LAB), "__main__"]
"""Every room may import itself and the rooms before it; the two floors stand one after the other"""
FACADES = {"__init__", "lab.__init__"}
"""Import names when first used, from rooms of their own floor"""


def _room_of(module: str) -> str:
    """The room of a dotted name below `scalednl`."""
    parts = module.split(".")
    if parts[0] == "lab":
        return f"lab.{parts[1]}" if f"lab.{parts[1]}" in ORDER else "lab.__init__"
    return parts[0] if parts[0] in ORDER else "__init__"


def _imported_rooms(path: Path) -> set[str]:
    """The rooms of the package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [f"{alias.name}.__init__" for alias in node.names]
        for name in names:
            if name.startswith("scalednl."):
                found.add(_room_of(name.removeprefix("scalednl.")))
    return found


def test_imports_go_one_way() -> None:
    """Every room imports only itself and the rooms before it, and every room has a place."""
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 10
    for path in files:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        room = ".".join(parts[:2]) if parts[0] == "lab" else parts[0]
        assert room in ORDER, f"{path}: {room} has no place in the order of rooms"
        if room in FACADES:
            extra = {r for r in _imported_rooms(path) if r.startswith("lab") != (len(parts) > 1)}
        else:
            extra = _imported_rooms(path) - set(ORDER[: ORDER.index(room) + 1])
        assert not extra, f"{path} imports {extra}"


def test_the_map_names_every_room_in_order() -> None:
    """ARCHITECTURE.md draws the rooms of both floors in the order in which they may import."""
    drawing = (PACKAGE.parents[1] / "ARCHITECTURE.md").read_text().split("```")[1]
    library, lab = drawing.partition("benchmarks/")[0].split("  lab/ ")
    for floor, rooms, folder in ((library, LIBRARY, PACKAGE), (lab, LAB, PACKAGE / "lab")):
        # Names stand in the first columns; a line with several names has nothing else.
        columns = (re.sub(r"(\S)  +\S+ \S.*", r"\1", line) for line in floor.splitlines())
        drawn = [name for name in re.findall(r"[a-z_]+", " ".join(columns)) if name in rooms]
        paths = {entry.stem for entry in folder.iterdir()}
        assert drawn[drawn[0] == "__init__" :] == [room for room in rooms[1:] if room in paths]
