"""Python files of a user's own that hold an attention or a network.

A file is executed only because the user named it, on the command line or in a call: never because
a record or a weights file mentions it.
"""

import ast
import hashlib
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from scalednl.errors import UsageError
from scalednl.options import suggestion

REFERENCE = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")
LARGEST = 2**20
"""Bytes of a file; what is larger is no file that somebody wrote"""
_loaded: dict[tuple[Path, str], "UserCode"] = {}


@dataclass(frozen=True)
class UserCode:
    """A file that has been executed."""

    path: Path
    fingerprint: str
    """Twelve letters of its code; comments, docstrings and layout do not count"""
    module: ModuleType

    def function(self, name: str) -> object:
        """What the file calls `name`; a UsageError suggests a similar name."""
        found = getattr(self.module, name, None)
        if callable(found):
            return found
        names = [key for key, value in vars(self.module).items() if callable(value)]
        raise UsageError(f"{self.path} has no function {name!r}{suggestion(name, names)}")


def split_reference(text: str) -> tuple[Path, str] | None:
    """The file and the name in FILE.py:NAME; None for any other text."""
    found = REFERENCE.fullmatch(text)
    return None if found is None else (Path(found["file"]), found["name"])


def load_code(path: Path) -> UserCode:
    """Execute a file, once per content; whatever is wrong with it is a UsageError."""
    path = path.absolute()
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path} is larger than {LARGEST} bytes: is it Python code?")
        source = path.read_bytes()
        tree = ast.parse(source)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UsageError(f"{path}{line} is not Python code: {reason}") from error
    fingerprint = fingerprint_of(tree)
    if (path, fingerprint) not in _loaded:
        _loaded[path, fingerprint] = UserCode(path, fingerprint, _execute(path, fingerprint))
    return _loaded[path, fingerprint]


def loaded_files() -> tuple[Path, ...]:
    """The files that this process has executed."""
    return tuple(dict.fromkeys(path for path, _ in _loaded))


def fingerprint_of(tree: ast.Module) -> str:
    """Twelve letters that differ when code does."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            body[:] = body[1:] or [ast.Pass()]
    return hashlib.blake2b(ast.dump(tree).encode(), digest_size=6).hexdigest()


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _execute(path: Path, fingerprint: str) -> ModuleType:
    # As `python FILE` does, so that the file can import its neighbours.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    name = f"scalednl_user_{path.stem}_{fingerprint}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = _line_in(path, error)
        raise UsageError(f"{path}{line} failed: {type(error).__name__}: {error}") from error
    return module


def _line_in(path: Path, error: Exception) -> str:
    """The last line of the file that the error passed through."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f", line {line}" if line else ""
