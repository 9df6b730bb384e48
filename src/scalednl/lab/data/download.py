"""One file over HTTP: resumed where it stopped, never taken for whole when it is not."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
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
"""Called with the bytes that are there"""


class UnreachableError(DataError):
    """A place that did not answer as it should; another one may."""


def download(url: str, to: Path, progress: Progress) -> None:
    """Fetch `url` into `to`; what an earlier try left in `to`.part is gone on with.

    Errors of the disk come as they are; all others are an `UnreachableError`.
    """
    part, note = to.with_name(f"{to.name}.part"), to.with_name(f"{to.name}.part.json")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _fetch(url, part, note, progress)
            break
        except _NetworkError as failed:
            error = failed.reason
            if isinstance(error, urllib.error.HTTPError) and error.code == 416:
                # The part is as long as the file, or longer: it is not to be gone on with.
                part.unlink(missing_ok=True)
            elif attempt == ATTEMPTS or not _worth_another_try(error):
                raise UnreachableError(f"{_place(url)}: {_reason(error)}") from error
            time.sleep(2.0 ** (attempt - 1))
    else:
        raise UnreachableError(f"{_place(url)} gives no whole file")
    part.replace(to)
    note.unlink(missing_ok=True)


class _NetworkError(Exception):
    """What went wrong on the way, as opposed to on our disk."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


def _fetch(url: str, part: Path, note: Path, progress: Progress) -> None:
    validator, have = _validator(note, url), part.stat().st_size if part.is_file() else 0
    with _ask(url, have, validator) as answer:
        resumed = answer.status == 206
        have = have if resumed else 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        if total is not None and total > MAX_BYTES:
            raise UnreachableError(f"{_place(url)} offers {total:,} bytes: this is another file")
        tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        write_json(note, {"url": url, "validator": tag})
        progress(have)
        with part.open("ab" if resumed else "wb") as file:
            while block := _next(answer):
                file.write(block)
                have += len(block)
                if have > (total or MAX_BYTES):
                    raise UnreachableError(f"{_place(url)} sent more than it said: another file")
                progress(have)
    if total is not None and have < total:
        raise _NetworkError(ConnectionResetError(f"cut off after {have:,} of {total:,} bytes"))


def _ask(url: str, have: int, validator: str | None) -> Any:
    try:
        request = urllib.request.Request(url, headers={"User-Agent": f"scalednl/{__version__}"})
        if validator and have:
            request.add_header("Range", f"bytes={have}-")
            request.add_header("If-Range", validator)
        return urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        raise _NetworkError(error) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _NetworkError(error) from error


def _next(answer: Any) -> bytes:
    try:
        return answer.read(BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise _NetworkError(error) from error


def _validator(note: Path, url: str) -> str | None:
    """What tells whether the file at the other end is still the one that a part is of."""
    with suppress(OSError, ValueError, AttributeError):
        kept = json.loads(note.read_text())
        tag = kept.get("validator")
        # A weak tag may name another file of the same meaning: no use for bytes.
        if kept.get("url") == url and isinstance(tag, str) and not tag.startswith("W/"):
            return tag
    return None


def _worth_another_try(error: Exception) -> bool:
    """A cut connection may hold next time; a name that does not exist, or a refusal, will not."""
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
