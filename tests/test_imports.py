"""Imports go one way through the rooms of the package."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "scalednl"
MAY_IMPORT = {
    "ops": {"ops"},
    "blocks": {"ops", "blocks"},
    "functional": {"ops"},
    "__init__": {"data", "functional", "ops", "blocks", "config", "models", "export", "analysis"},
    "config": {"ops", "errors", "config"},
    "errors": set(),
    "files": set(),
    "counting": set(),
    "seeds": set(),
    "signals": set(),
    "tables": set(),
    "stats": set(),
    "progress": set(),
    "records": {"files", "errors", "config", "records", "__init__"},
    "data": {"config", "errors", "files", "seeds", "progress", "data", "__init__"},
    "paper": {"config", "errors", "ops", "paper", "stats"},
    "train": {
        *("config", "records", "files", "errors", "seeds", "progress", "models", "blocks", "ops"),
        *("data", "counting", "signals", "train"),
    },
    "sweep": {
        *("config", "paper", "records", "train", "errors", "files", "progress", "signals", "sweep"),
        "stats",
    },
    "models": {"ops", "blocks", "config", "models", "files"},
    "export": {"ops", "blocks", "models"},
    "analysis": {
        *("ops", "blocks", "models", "config", "records", "files", "errors", "data", "train"),
        *("stats", "progress", "analysis"),
    },
    "charts": {"charts"},
    "bench": {
        *("ops", "blocks", "models", "config", "records", "files", "errors"),
        *("paper", "charts", "counting", "data", "signals", "tables", "train", "bench"),
    },
    "report": {"charts", "config", "errors", "files", "paper", "records", "report", "stats"},
    "demo": {
        *("blocks", "counting", "bench", "config", "paper", "records", "files", "errors"),
        *("train", "analysis", "report", "demo"),
    },
    "cli": {
        *(
            "cli",
            "config",
            "paper",
            "train",
            "records",
            "data",
            "files",
            "errors",
            "demo",
            "export",
        ),
        *("models", "bench", "analysis", "report", "sweep", "tables", "__init__"),
    },
    "__main__": {"cli"},
}


def _imported_rooms(path: Path) -> set[str]:
    """The rooms of the package that a file imports, "__init__" for the package itself."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{path}: relative import"
            names = [node.module]
            if node.module == "scalednl":
                names = [f"scalednl.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "scalednl":
                room = parts[1] if len(parts) > 1 else "__init__"
                is_room = (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file()
                found.add(room if is_room else "__init__")
    return found


def test_imports_go_one_way() -> None:
    """Every room imports only the rooms below it, and every room has its line in the table."""
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 10
    for path in files:
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        assert room in MAY_IMPORT, f"{path}: no rule for {room}"
        extra = _imported_rooms(path) - MAY_IMPORT[room]
        assert not extra, f"{path} imports {extra}"
