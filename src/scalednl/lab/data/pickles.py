"""The python version of CIFAR read without trusting it.

A pickle is a program. Of what it may name, only the three things that the official files need are
admitted, and they are stand-ins that record their arguments: numpy itself never runs on them. The
interpreter of opcodes is the one written in Python, since the compiled one can be made to reserve
memory by a single opcode.
"""

import io
import math
import pickle
from typing import Any

import numpy as np

from scalednl.lab.data.errors import DataError
from scalednl.lab.data.splits import Bytes, Labels


class _Dtype:
    """Stands for numpy.dtype: remembers the name of the type."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) and len(name) < 9 else name

    def __setstate__(self, state: Any) -> None:
        """Byte order and fields mean nothing for single bytes."""


class _Array:
    """Stands for numpy.ndarray: remembers shape, type and bytes."""

    shape: Any = None
    dtype: Any = None
    content: Any = None

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, fortran, self.content = state
        if fortran or isinstance(self.content, list):
            raise ValueError("its array is not in one piece, row by row")

    def as_bytes(self) -> Bytes:
        """The array, if it is one of bytes."""
        content = self.content.encode("latin1") if isinstance(self.content, str) else self.content
        name = getattr(self.dtype, "name", None)
        shape = self.shape
        flat = isinstance(shape, tuple) and len(shape) == 2
        whole = flat and all(type(n) is int and 0 <= n < 2**31 for n in shape)
        if name != "u1" or not whole or not isinstance(content, bytes):
            raise ValueError("its array is not one of bytes")
        if math.prod(shape) != len(content):
            raise ValueError(f"its array of {shape} has {len(content):,} bytes")
        return np.frombuffer(content, np.uint8).reshape(shape)


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Stands for _codecs.encode, by which Python 3 writes bytes in old protocols."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise ValueError("it encodes text in an unexpected way")
    return text.encode("latin1")


ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


# All that pickles of dictionaries, lists, text, bytes and small numbers are made of.
_NAMES = """
PROTO FRAME STOP MARK GLOBAL STACK_GLOBAL REDUCE BUILD NONE NEWTRUE NEWFALSE INT BININT BININT1
BININT2 STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINBYTES
SHORT_BINBYTES BINBYTES8 EMPTY_DICT DICT SETITEM SETITEMS EMPTY_LIST LIST APPEND APPENDS
EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET
"""
OPCODES = frozenset(getattr(pickle, name)[0] for name in _NAMES.split())
MAX_STEPS = 2_000_000
"""A file of 50,000 records, the longest there is, takes 0.5 million"""


class _Dispatch(dict[int, Any]):
    """The admitted opcodes, which may be looked up a limited number of times."""

    def __init__(self, opcodes: dict[int, Any]) -> None:
        super().__init__(opcodes)
        self._left = MAX_STEPS

    def __getitem__(self, code: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise pickle.UnpicklingError("it goes on and on")
        return super().__getitem__(code)

    def __missing__(self, code: int) -> Any:
        raise pickle.UnpicklingError(f"it uses the opcode {bytes([code])!r}")


# The type checker knows the compiled one only.
_Interpreter: Any = pickle._Unpickler


class _Unpickler(_Interpreter):  # type: ignore[misc]
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._left = len(content)
        codes = {code: _Interpreter.dispatch[code] for code in OPCODES}
        codes[pickle.SETITEM[0]] = _Unpickler.load_setitem
        codes[pickle.SETITEMS[0]] = _Unpickler.load_setitems
        codes[pickle.DICT[0]] = _Unpickler.load_dict
        codes[pickle.BUILD[0]] = _Unpickler.load_build
        self.dispatch = _Dispatch(codes)

    def find_class(self, module: str, name: str) -> Any:
        """Only what the official files name."""
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}"[:200])
        found = ADMITTED[module, name]
        return self._encode if found is _encode else found

    def _encode(self, text: Any, encoding: Any = "latin1") -> bytes:
        """Bytes from text, no more in all than the file is long."""
        content = _encode(text, encoding)
        self._left -= len(content)
        if self._left < 0:
            raise pickle.UnpicklingError("it makes more bytes than it has")
        return content

    def load_setitem(self) -> None:
        """One entry of a dictionary."""
        value, key = self.stack.pop(), self.stack.pop()
        self.stack[-1][_text(key)] = value

    def load_setitems(self) -> None:
        """Several entries."""
        items = self.pop_mark()
        self.stack[-1].update(_entries(items))

    def load_dict(self) -> None:
        """A dictionary at once."""
        items = self.pop_mark()
        self.append(_entries(items))

    def load_build(self) -> None:
        """State for one of our stand-ins, and for nothing else."""
        if type(self.stack[-2]) not in (_Array, _Dtype):
            raise pickle.UnpicklingError("it changes something that is not an array")
        _Interpreter.load_build(self)


def _entries(items: list[Any]) -> dict[str, Any]:
    return {_text(key): value for key, value in zip(items[::2], items[1::2], strict=True)}


def _text(key: Any) -> str:
    """A key, which must be text: hashing nested tuples can take for ever."""
    if not isinstance(key, bytes | str) or len(key) > 64:
        raise ValueError("a key of its dictionary is not a short text")
    return key.decode("latin1") if isinstance(key, bytes) else key


class Batch:
    """What one pickle of CIFAR holds."""

    def __init__(self, values: dict[str, Any], name: str) -> None:
        self._values, self._name = values, name

    def images(self, width: int) -> Bytes:
        """The pixels, one row an image."""
        array = self._values.get("data")
        try:
            if not isinstance(array, _Array):
                raise ValueError("it has no array called data")
            pixels = array.as_bytes()
            if pixels.ndim != 2 or pixels.shape[1] != width:
                raise ValueError(f"its array of {pixels.shape} is not of rows of {width} bytes")
        except ValueError as error:
            raise DataError(f"{self._name} is not a batch of CIFAR: {error}") from error
        return pixels

    def labels(self, key: str, classes: int) -> Labels:
        """The list of labels under a key."""
        values = self._values.get(key)
        if not isinstance(values, list) or not all(
            type(value) is int and 0 <= value < classes for value in values
        ):
            raise DataError(
                f"{self._name} is not a batch of CIFAR: its {key} are not whole numbers from 0 to "
                f"{classes - 1}"
            )
        return np.array(values, np.int64)


def read_batch(content: bytes, name: str) -> Batch:
    """The dictionary in a pickle, if it needs nothing that CIFAR does not."""
    try:
        values = _Unpickler(content).load()
        if not isinstance(values, dict):
            raise ValueError("it holds no dictionary")
    except Exception as error:
        # Damage can make the interpreter stumble in any way; none of them runs foreign code.
        said = str(error) or type(error).__name__
        raise DataError(
            f"{name} is not a pickle of CIFAR and was not opened further: {said}; use the binary "
            "version, or get it again"
        ) from error
    return Batch(values, name)
