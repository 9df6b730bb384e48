"""One file over HTTP: resumed where it stopped, and never mistaken for complete."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scalednl import __version__
from scalednl.files import write_json
from scalednl.lab.data.errors import DataError

TIMEOUT = 30.0
ATTEMPTS = 4
BLOCK = 2**18
MAX_BYTES = 4 * 2**30

Progress = Callable[[int], None]
"""Called with the number of bytes that are on disk"""


class UnreachableError(DataError):
    """A source that did not answer as it should; another one may."""


def download(url: str, to: Path, progress: Progress) -> None:
    """Download `url` into `to`, resuming from `to`.part if an earlier attempt left one.

    Errors of the disk are raised as they are; all others are an `UnreachableError`.
    """
    part, note = to.with_name(f"{to.name}.part"), to.with_name(f"{to.name}.part.json")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _fetch(url, part, note, progress)
            break
        except _NetworkError as failed:
            error = failed.reason
            if isinstance(error, urllib.error.HTTPError) and error.code == 416:
                # The part is as long as the file, or longer: it cannot be resumed.
                part.unlink(missing_ok=True)
            elif attempt == ATTEMPTS or not _is_temporary(error):
                raise UnreachableError(f"{_place(url)}: {_reason(error)}") from error
            time.sleep(2.0 ** (attempt - 1))
    else:
        raise UnreachableError(f"{_place(url)} does not send a complete file")
    part.replace(to)
    note.unlink(missing_ok=True)


class _NetworkError(Exception):
    """What failed in the network, as opposed to on the disk."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


@contextmanager
def _network() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise _NetworkError(error) from error


def _fetch(url: str, part: Path, note: Path, progress: Progress) -> None:
    have = part.stat().st_size if part.is_file() else 0
    with _network():
        answer = urllib.request.urlopen(_request(url, have, note), timeout=TIMEOUT)
    with answer:
        resumed = answer.status == 206
        have = have if resumed else 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        if total is not None and total > MAX_BYTES:
            raise UnreachableError(f"{_place(url)} offers {total:,} bytes: it is another file")
        tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        write_json(note, {"url": url, "validator": tag})
        with part.open("ab" if resumed else "wb") as file:
            while block := _next_block(answer):
                file.write(block)
                have += len(block)
                if have > (total or MAX_BYTES):
                    raise UnreachableError(f"{_place(url)} sends more bytes than it announced")
                progress(have)
    if total is not None and have < total:
        raise _NetworkError(ConnectionResetError(f"cut off after {have:,} of {total:,} bytes"))


def _request(url: str, have: int, note: Path) -> urllib.request.Request:
    """A request for the rest of a part if the file can be compared, else for the complete file."""
    with _network():
        request = urllib.request.Request(url, headers={"User-Agent": f"scalednl/{__version__}"})
    with suppress(OSError, ValueError, AttributeError):
        known = json.loads(note.read_text())
        tag = known.get("validator")
        # A weak tag may stand for a file with other bytes.
        if have and known.get("url") == url and isinstance(tag, str) and not tag.startswith("W/"):
            request.add_header("Range", f"bytes={have}-")
            request.add_header("If-Range", tag)
    return request


def _next_block(answer: Any) -> bytes:
    with _network():
        return answer.read(BLOCK)


def _is_temporary(error: Exception) -> bool:
    """Whether another attempt may succeed: not for an unknown name or a refusal."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in (408, 425, 429, 500, 502, 503, 504)
    if isinstance(error, urllib.error.URLError):
        return isinstance(error.reason, TimeoutError | ConnectionResetError)
    return isinstance(error, TimeoutError | ConnectionError | http.client.HTTPException)


def _place(url: str) -> str:
    return urlsplit(url).netloc or url


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"answered {error.code} {error.reason}"
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError):
        return f"no answer within {TIMEOUT:g} s"
    if isinstance(reason, OSError) and reason.strerror:
        return f"cannot be reached ({reason.strerror})"
    return str(reason) or type(reason).__name__
