"""Hostile run directories, by name: each is a healthy run with one thing changed."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.lab.records.builders import RECORD
from tests.lab.report.builders import cell_experiment, write_run

EXPERIMENT = cell_experiment("table1_importance", "scaled", "base")
PNG = b"\x89PNG\r\n\x1a\n"
SECRET = "5ecret-of-another-folder"
FILES = (
    *("config.json", "result.json", "epochs.jsonl", "failure.json", ".lock", "log.txt"),
    *("predictions.npy", "attention/attention.json", "attention/map.png"),
)
MAKES_DAMAGED = ("config.json", "result.json", "epochs.jsonl")
"""Files without which a run cannot be shown"""


def _nested_object(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


ODD: tuple[Any, ...] = (
    *(None, True, -1, 10**400, 10**18, 1e308, 5, "", "0", "\ud800", "a\0b", "<b>|", "x" * 10**5),
    *([], {}, [["x"]], {"a": {"b": []}}, _nested_object(600)),
)
Attack = Callable[[Path, Path], None]
"""Changes a run; the second path is a folder outside, with secrets"""


def write_healthy(path: Path, seed: int = 1) -> Path:
    """A run with attention, log and failure."""
    write_run(path, replace(EXPERIMENT, seed=seed), [30.0])
    (path / "attention").mkdir(exist_ok=True)
    (path / "attention" / "attention.json").write_text(json.dumps({"schema": 2, **RECORD}))
    (path / "attention" / "map.png").write_bytes(PNG)
    for name in ("log.txt", ".lock"):
        (path / name).touch()
    return path


def write_outside(folder: Path) -> Path:
    """A healthy run outside of what is reported, whose every text is a secret."""
    secret = replace(EXPERIMENT, seed=9, recipe=SECRET)
    path = write_run(folder / "run", secret, [77.125]).path
    (path / "attention").mkdir()
    record = {"schema": 2, **RECORD, "model": SECRET}
    (path / "attention" / "attention.json").write_text(json.dumps(record))
    (path / "attention" / "map.png").write_bytes(PNG + SECRET.encode())
    (path / "predictions.npy").write_bytes(b"")
    for name in ("log.txt", ".lock"):
        (path / name).write_text(SECRET)
    failure = {"schema": 1, "count": 1, "message": SECRET, "date": ""}
    (path / "failure.json").write_text(json.dumps(failure))
    return folder


def _replaced(file: str, make: Callable[[Path, Path], object], run: Path, outside: Path) -> None:
    path = run / file
    path.unlink(missing_ok=True)
    make(path, outside / "run" / file)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has at most 107 letters
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _loop(path: Path) -> None:
    path.with_name("loop").unlink(missing_ok=True)
    path.with_name("loop").symlink_to(path.name)
    path.symlink_to("loop")


def _nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def _filled(start: bytes, part: bytes, end: bytes, size: int = 4 << 20) -> bytes:
    """A file of nearly `size` bytes: a part again and again."""
    return start + part * ((size - 200 - len(start) - len(end)) // len(part)) + end


CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "nul": bytes(4096),
    "noise": bytes(range(256)) * 16,
    "deep": _nested(600),
    "deeper": _nested(100_000),
    "half-deep": b'{"schema":1,"a":' * 100_000,
    "lists": _filled(b'{"schema":1,"run":{},"experiment":{"x":[', b"[],", b"[]]}}"),
    "objects": _filled(b'{"schema":1,"run":{},"experiment":{"x":[', b"{},", b"{}]}}"),
    "lines": _filled(b"", b'{"schema":1,"epoch":1}\n', b""),
    "breaks": _filled(b"", b"\n", b""),
    "classes": _filled(b'{"schema":1,"epoch":1,"class_error_pct":[', b"0,", b"0]}\n"),
    "heads": _filled(b'{"schema":2,"blocks":[{"head_scores":{"x":[', b"0,", b"0]}}]}", 8 << 20),
    "text": _filled(b'{"schema":1,"status":"', b"x", b'"}'),
    "digits": _filled(b'{"schema":1,"seconds":', b"9", b"}"),
}
"""What takes the place of a file's content"""


def _written(content: bytes, path: Path, _: Path) -> None:
    path.write_bytes(content)


KINDS: dict[str, Callable[[Path, Path], object]] = {
    "pipe": lambda path, _: os.mkfifo(path),
    "socket": lambda path, _: _socket(path),
    "folder": lambda path, _: path.mkdir(),
    "sparse": lambda path, _: _sparse(path),
    "endless": lambda path, _: path.symlink_to("/dev/zero"),
    "terminal": lambda path, _: path.symlink_to("/dev/tty"),
    "loop": lambda path, _: _loop(path),
    "self": lambda path, _: path.symlink_to(path.name),
    "link-out": lambda path, other: path.symlink_to(other),
    "memory": lambda path, _: path.symlink_to("/proc/self/mem"),
    **{name: partial(_written, content) for name, content in CONTENTS.items()},
}
"""What takes the place of a file"""


HEAVY = {
    **dict.fromkeys(("lists", "objects"), "config.json"),
    **dict.fromkeys(("text", "digits"), "result.json"),
    **dict.fromkeys(("lines", "breaks", "classes"), "epochs.jsonl"),
    "heads": "attention/attention.json",
}
"""Contents of megabytes, and the file where each does most harm"""


def file_attacks() -> Iterator[tuple[str, str, Attack]]:
    """A name, a file, and what puts something of every kind in its place."""
    for file in FILES:
        for kind, make in KINDS.items():
            if HEAVY.get(kind, file) == file:
                yield f"{file.replace('/', '-')}-{kind}", file, partial(_replaced, file, make)


def _linked_attention(run: Path, outside: Path) -> None:
    (run / "attention").rename(run / "attention-before")
    (run / "attention").symlink_to(outside / "run" / "attention")


def _attention(change: dict[str, Any], run: Path, _: Path) -> None:
    record = {"schema": 2, **RECORD, **change}
    (run / "attention" / "attention.json").write_text(json.dumps(record))


def _map(**change: Any) -> Attack:
    return partial(_attention, {"maps": [{**RECORD["maps"][0], **change}]})


def _block(**change: Any) -> Attack:
    return partial(_attention, {"blocks": [{**RECORD["blocks"][0], **change}]})


FURTHER: dict[str, Attack] = {
    "linked-attention": _linked_attention,
    "map-outside": _map(file="../../../outside/run/attention/map.png"),
    "map-nul": _map(file="a\0.png"),
    "map-high-null": _map(high=None),
    "many-maps": partial(_attention, {"maps": RECORD["maps"] * 20_000}),
    "many-blocks": partial(_attention, {"blocks": RECORD["blocks"] * 20_000}),
    "huge-heads": _block(heads=10**9),
    "huge-sizes": _block(query_size=[10**9, 10**9]),
    "long-names": _block(name="x" * 10**6, attention="y" * 10**6),
    "linked-away": lambda run, outside: (run / "b").symlink_to(outside),
}


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every way into a JSON value; of lists, the first three."""
    yield place
    items = list(value.items()) if isinstance(value, dict) else []
    if isinstance(value, list):
        items = list(enumerate(value))[:3]
    for name, item in items:
        yield from places(item, (*place, name))


def put(value: Any, place: tuple[Any, ...], odd: Any) -> Any:
    """A copy of a JSON value with another part at a place."""
    if not place:
        return odd
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[place[0]] = put(copied[place[0]], place[1:], odd)
    return copied
