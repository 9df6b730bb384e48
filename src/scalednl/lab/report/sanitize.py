"""Values from files of any origin, made safe to compute with, to write and to show."""

import json
import math
from pathlib import Path
from typing import Any

LARGEST_FILE = 20_000_000
ORIGIN = ("date", "scalednl", "commit", "python", "machine", "system", "threads", "command")


def clean(value: Any) -> Any:
    """The same JSON value, its text encodable; ValueError at a number that is none."""
    if isinstance(value, str):
        return words(value)
    if isinstance(value, dict):
        return {words(str(name)): clean(item) for name, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            finite = math.isfinite(float(value))
        except OverflowError:
            finite = False
        if not finite:
            raise ValueError("a number is not finite")
    return value


def words(text: str) -> str:
    """Text that every file takes: half characters become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def clean_origin(origin: Any) -> dict[str, Any]:
    """What is shown of a result's origin, each a text or None; nothing else."""
    found = origin if isinstance(origin, dict) else {}
    shown: dict[str, Any] = {
        name: None if found.get(name) is None else words(str(found[name])) for name in ORIGIN
    }
    packages = found.get("packages")
    pairs = packages.items() if isinstance(packages, dict) else ()
    shown["packages"] = {words(str(name)): words(str(version)) for name, version in pairs}
    return shown


def read_json(path: Path) -> Any:
    """The value of a JSON file, cleaned; None if it is unreadable, too large or damaged."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            return None
        return clean(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return None
