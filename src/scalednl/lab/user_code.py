"""Python files of a user's own that hold an attention or a network.

A file is executed only because the user named it, on the command line or in a call: never because
a record or a weights file mentions it. Records know an attention by its name, and a network as
FILE:FUNCTION, FILE without its folder and `.py`; both with the fingerprint of the code.
"""

import ast
import hashlib
import importlib.util
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from scalednl.attentions import ATTENTIONS, own_attentions
from scalednl.errors import UsageError, described
from scalednl.options import suggestion

REFERENCE = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")
ENTRY = re.compile(r"[^:=<>&\"']{1,100}(:[^\W\d]\w{0,99})?=[0-9a-f]{12}")
LARGEST = 2**20
"""Bytes of a file; what is larger is no file that somebody wrote"""
MODULE = "scalednl_user_"
"""Begins the name of the module of a user's file"""
_loaded: dict[Path, "UserCode"] = {}
"""In the order of loading"""


@dataclass(frozen=True)
class UserCode:
    """A file that has been executed."""

    path: Path
    fingerprint: str
    """Twelve letters of its code; comments, docstrings and layout do not count"""
    module: ModuleType

    def function(self, name: str) -> Callable[..., Any]:
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
    """Execute a file, again if its code has changed; whatever is wrong with it is a UsageError."""
    path = Path(os.path.abspath(path))
    if not ENTRY.fullmatch(f"{path.stem}=000000000000") or path.stem == "timm":
        raise UsageError(f"{path} cannot be loaded under that name: rename it, such as my_code.py")
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path} is larger than {LARGEST} bytes: is it Python code?")
        source = path.read_bytes()
        tree = ast.parse(source)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        number = getattr(error, "lineno", None)
        line = f", line {number}" if number else ""
        reason = getattr(error, "msg", None) or str(error) or "it is nested too deeply"
        raise UsageError(f"{path}{line} is not Python code: {reason}") from error
    fingerprint = fingerprint_of_code(tree)
    code = _loaded.get(path)
    if code is None or code.fingerprint != fingerprint:
        twin = _file_called(path.stem)
        if twin is not None and twin.path != path and twin.fingerprint != fingerprint:
            raise UsageError(f"{twin.path} and {path} have the same name: rename one of them")
        code = UserCode(path, fingerprint, _execute(path, source, fingerprint))
        _register_networks(code)
    _loaded.pop(path, None)
    _loaded[path] = code
    return code


def _register_networks(code: UserCode) -> None:
    """Make each function of the file that can be called with `num_classes` known as a network."""
    from scalednl.models.foreign_network import register_builder, takes_num_classes

    for name, value in vars(code.module).items():
        own = getattr(value, "__module__", "") == code.module.__name__
        if own and callable(value) and takes_num_classes(value):
            register_builder(f"{code.path.stem}:{name}", value)


def loaded_files() -> tuple[Path, ...]:
    """All files that were executed, for processes that have to do the same."""
    return tuple(_loaded)


def load_attention(path: Path, name: str) -> str:
    """The name under which a file registers an attention."""
    code = load_code(path)
    here = [own for own in own_attentions() if _module_of(own) == code.module.__name__]
    if name in here:
        return name
    if not here:
        raise UsageError(
            f"{code.path} registers no attention: put @scalednl.register_attention before a "
            "function of theta and phi"
        )
    raise UsageError(f"{code.path} has no attention {name!r}: it registers {', '.join(here)}")


def load_network(path: Path, name: str) -> str:
    """The name FILE:FUNCTION of a network that a function of a file makes."""
    from scalednl.models.foreign_network import register_builder

    code = load_code(path)
    full = f"{code.path.stem}:{name}"
    try:
        register_builder(full, code.function(name))
    except ValueError as error:
        raise UsageError(f"{code.path}: {error}") from error
    return full


def files_of(entries: Iterable[str]) -> tuple[Path, ...]:
    """The loaded files of what is in NAME=FINGERPRINT."""
    names = [entry.partition("=")[0] for entry in entries]
    modules = {_module_of(name) for name in names if name in ATTENTIONS}
    stems = {name.partition(":")[0] for name in names if ":" in name}
    return tuple(
        path
        for path, code in _loaded.items()
        if path.stem in stems or code.module.__name__ in modules
    )


def code_of(names: Iterable[str], given: Iterable[str] = ()) -> tuple[str, ...]:
    """NAME=FINGERPRINT of attentions and networks: as given, or else as they are loaded now."""
    given = tuple(given)
    for entry in given:
        if not ENTRY.fullmatch(entry) or not entry.isprintable():
            raise UsageError(f"code has {entry[:80]!r}, which is not NAME=FINGERPRINT")
    known = dict(entry.split("=", 1) for entry in given)
    found = {name: known.get(name) or fingerprint_of(name) for name in names}
    return tuple(sorted(f"{name}={letters}" for name, letters in found.items() if letters))


def check_code(entries: Iterable[str], names: Iterable[str] = ()) -> None:
    """Raise unless all names are loaded, and all of NAME=FINGERPRINT are what they were."""
    for name in names:
        if not fingerprint_of(name):
            raise UsageError(_not_loaded(name))
    for entry in entries:
        name, _, letters = entry.partition("=")
        now = fingerprint_of(name)
        if not now:
            raise UsageError(_not_loaded(name))
        if now != letters:
            raise UsageError(
                f"the code of {name} has changed since this run began: restore it, or begin "
                "another run"
            )


def fingerprint_of(name: str) -> str:
    """The fingerprint of a loaded attention or network; empty if there is none."""
    if ":" in name:
        code = _file_called(name.partition(":")[0])
        return "" if code is None else code.fingerprint
    kind = ATTENTIONS.get(name)
    if kind is None or kind.function is None:
        return ""
    module = _module_of(name)
    if module.startswith(MODULE):
        return module.rpartition("_")[2]
    try:
        return fingerprint_of_code(ast.parse(textwrap.dedent(inspect.getsource(kind.function))))
    except (OSError, TypeError, SyntaxError):
        # Typed into a prompt: its compiled form must do.
        compiled = getattr(kind.function, "__code__", None)
        text = b"" if compiled is None else compiled.co_code + repr(compiled.co_consts).encode()
        return hashlib.blake2b(text, digest_size=6).hexdigest()


def advice(name: str) -> str:
    """How to load the file of an attention or a network."""
    file = f"{name.partition(':')[0]}.py" if ":" in name else "FILE.py"
    return f"add --code {file}, the path of that file"


def _not_loaded(name: str) -> str:
    what = "the network" if ":" in name else "the attention"
    return f"{what} {name} comes from a file of your own, which is not loaded: {advice(name)}"


def _module_of(attention: str) -> str:
    return str(getattr(ATTENTIONS[attention].function, "__module__", ""))


def _file_called(stem: str) -> UserCode | None:
    """The file of this name that was loaded last."""
    return next((code for code in reversed(_loaded.values()) if code.path.stem == stem), None)


def fingerprint_of_code(tree: ast.Module) -> str:
    """Twelve letters that differ when code does."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            body[:] = body[1:] or [ast.Pass()]
    return hashlib.blake2b(_written(tree).encode(), digest_size=6).hexdigest()


def _written(node: object) -> str:
    """A tree as text that is the same in every version of Python: without what is empty."""
    if isinstance(node, list):
        return f"[{','.join(map(_written, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = ((name, getattr(node, name, None)) for name in node._fields)
    filled = (f"{name}={_written(value)}" for name, value in parts if value not in (None, []))
    return f"{type(node).__name__}({','.join(filled)})"


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _execute(path: Path, source: bytes, fingerprint: str) -> ModuleType:
    # As `python FILE` does, so that the file can import its neighbours.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    name = f"{MODULE}{path.stem}_{fingerprint}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise UsageError(f"{path} must end in .py, as a file of Python does")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        # Not by the loader, whose stored bytecode may be of a file that was changed a moment ago.
        exec(compile(source, str(path), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(f"{path}{_line_in(path, error)} failed: {described(error)}") from error
    return module


def _line_in(path: Path, error: BaseException) -> str:
    """The last line of the file that the error passed through."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f", line {line}" if line else ""
