"""One file over HTTP: resumed where it stopped, never taken for whole when it is not."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from scalednl import __version__
from scalednl.data.errors import DataError
from scalednl.files import write_json

TIMEOUT = 30.0
ATTEMPTS = 4
BLOCK = 2**18
MAX_BYTES = 4 * 2**30

Start = Callable[[int, int | None], None]
"""Called with the bytes that are there already and the bytes in all"""


class UnreachableError(DataError):
    """A place that did not answer as it should; another one may."""


def download(url: str, to: Path, start: Start, advance: Callable[[int], None]) -> None:
    """Fetch `url` into `to`; what an earlier try left in `to`.part is gone on with."""
    part, note = to.with_name(f"{to.name}.part"), to.with_name(f"{to.name}.part.json")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _fetch(url, part, note, start, advance)
            break
        except (OSError, http.client.HTTPException) as error:
            if attempt == ATTEMPTS or not _worth_another_try(error):
                raise UnreachableError(f"{_place(url)}: {_reason(error)}") from error
            time.sleep(2.0 ** (attempt - 1))
    part.replace(to)
    note.unlink(missing_ok=True)


def _fetch(url: str, part: Path, note: Path, start: Start, advance: Callable[[int], None]) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": f"scalednl/{__version__}"})
    validator, have = _validator(note, url), part.stat().st_size if part.is_file() else 0
    if validator and have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", validator)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        resumed = answer.status == 206
        have = have if resumed else 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        if total is not None and total > MAX_BYTES:
            raise UnreachableError(f"{_place(url)} offers {total:,} bytes: this is another file")
        tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        write_json(note, {"url": url, "validator": tag})
        start(have, total)
        with part.open("ab" if resumed else "wb") as file:
            while block := answer.read(BLOCK):
                file.write(block)
                have += len(block)
                if have > (total or MAX_BYTES):
                    raise UnreachableError(
                        f"{_place(url)} sent more than it said: this is another file"
                    )
                advance(len(block))
    if total is not None and have < total:
        raise ConnectionResetError(f"cut off after {have:,} of {total:,} bytes")


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
