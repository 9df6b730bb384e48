"""`scalednl data get|verify|list|show`."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import tyro

from scalednl.errors import CommandError, UsageError
from scalednl.lab.cli.deferred import deferred
from scalednl.lab.config.folder import PREFIX, is_folder
from scalednl.lab.config.limits import check_at_least, check_at_most

Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
Root = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]

data = tyro.extras.SubcommandApp()


@data.command
@deferred
def get(
    name: Name,
    source: Annotated[Path | None, tyro.conf.arg(name="from", metavar="PATH")] = None,
    mirror: Annotated[str | None, tyro.conf.arg(metavar="URL")] = None,
    root: Root = None,
    force: bool = False,
) -> None:
    """Download a data set, check every byte of it, and store it for training.

    Tries the official address, then mirrors; resumes where an earlier attempt stopped. A copy is
    stored only when it is complete. For example `scalednl data get cifar10`, or
    `scalednl data get tiny-imagenet --from tiny-imagenet-200.zip`.

    Args:
        name: cifar10, cifar100 or tiny-imagenet.
        source: An archive or folder that you already have, instead of a download.
        mirror: The address of another copy of the archive, tried first.
        root: Folder of the data sets; $SCALEDNL_DATA or the platform's cache folder if not given.
        force: Download it again, and replace a stored copy even if it has more images.
    """
    from scalednl.lab.config.data_sets import find_data_set
    from scalednl.lab.data.catalogue import CATALOGUE
    from scalednl.lab.data.fetch import get as get_data
    from scalednl.lab.data.store import data_root

    if is_folder(name):
        raise UsageError(f"{name} is your own: use it as it is, with --data {name}")
    facts = find_data_set(name)
    if facts.is_generated:
        print(f"{name} is generated: there is nothing to download")
        return
    if source is not None and mirror is not None:
        raise UsageError("--from and --mirror cannot be used together: leave one of them out")
    if source is not None and str(source).startswith(("http:", "https:")):
        raise UsageError("--from must be a file or a folder: give an address with --mirror")
    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise UsageError(f"--mirror must begin with http:// or https://, got {mirror}")
    place = data_root(root)
    found = get_data(CATALOGUE[name], place, _say, source=source, mirror=mirror, force=force)
    print(
        f"{facts.words}: {found.train_images:,} training and {found.test_images:,} test images of "
        f"{len(found.class_names)} classes, verified, in {place / name}"
    )


@data.command
@deferred
def verify(name: Name, root: Root = None) -> None:
    """Compare a stored data set with its hashes and decode every image.

    For example `scalednl data verify cifar10`, or `scalednl data verify folder:photos`, which reads
    every image and names all that cannot be read.

    Args:
        name: cifar10, cifar100, tiny-imagenet or folder:PATH.
        root: Folder of the data sets; $SCALEDNL_DATA or the platform's cache folder if not given.
    """
    from scalednl.lab.config.data_sets import find_data_set
    from scalednl.lab.data.catalogue import CATALOGUE
    from scalednl.lab.data.fetch import verify as verify_data
    from scalednl.lab.data.store import data_root

    if is_folder(name):
        _verify_folder(name)
        return
    facts = find_data_set(name)
    if facts.is_generated:
        print(f"{name} is generated: there is nothing to verify")
        return
    place = data_root(root)
    found = verify_data(CATALOGUE[name], place)
    images = found.train_images + found.test_images
    print(f"{facts.words}: all {images:,} images are valid, in {place / name}")


@data.command(name="list")
@deferred
def list_data(root: Root = None) -> None:
    """Show which data sets are stored, and where.

    For example `scalednl data list --root /mnt/data`.

    Args:
        root: Folder of the data sets; $SCALEDNL_DATA or the platform's cache folder if not given.
    """
    from rich.console import Console
    from rich.table import Table

    from scalednl.lab.config.data_sets import DATA_SETS
    from scalednl.lab.data.store import data_root

    place = data_root(root)
    if os.path.lexists(place) and not place.is_dir():
        raise CommandError(f"{place} is not a folder: choose another one with --root")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("name", "state", "size", "images", "classes", "path"):
        table.add_column(
            column,
            justify="right" if column in ("size", "images", "classes") else "left",
            overflow="fold",
        )
    for name in DATA_SETS:
        table.add_row(*_row(name, place))
    for row in _folder_rows(place):
        table.add_row(*row)
    # A log or a pipe gets complete lines, whatever width the terminal is assumed to have.
    Console(width=None if sys.stdout.isatty() else 1000).print(table)


@data.command
@deferred
def show(
    name: Name,
    to: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PNG")],
    images: Annotated[int, tyro.conf.arg(metavar="N")] = 12,
    seed: int = 0,
    root: Root = None,
) -> None:
    """Draw images of a data set with their labels.

    For example `scalednl data show pairs pairs.png`.

    Args:
        name: One of the names of `scalednl data list`, or folder:PATH.
        to: The PNG file to write.
        images: Number of images.
        seed: Seed of the choice of images.
        root: Folder of the data sets; $SCALEDNL_DATA or the platform's cache folder if not given.
    """
    if to.suffix.lower() != ".png":
        raise UsageError(f"{to} must end in .png")
    if not to.parent.is_dir():
        raise UsageError(f"{to.parent} is not a folder: create it first")
    check_at_least(1, images=images)
    from scalednl.files import replacing, writing_to
    from scalednl.lab.data.contact_sheet import draw_sheet
    from scalednl.lab.data.load import load_data

    loaded = load_data(name, root)
    check_at_most(len(loaded.train), "training images", images=images)
    sheet = draw_sheet(loaded, images, seed)
    with writing_to(to, "choose another file"), replacing(to) as temporary:
        sheet.save(temporary, "PNG")
    print(to)


def _row(name: str, root: Path) -> tuple[str, ...]:
    from scalednl.lab.config.generated import GENERATED
    from scalednl.lab.data.store import describe, size_on_disk

    folder = root / name
    if name in GENERATED:
        usual = GENERATED[name]()
        images = f"{usual.train_images + usual.test_images:,}"
        return name, "generated", "-", images, str(usual.classes), "-"
    if not os.path.lexists(folder):
        return name, f"not stored: scalednl data get {name}", "-", "-", "-", "-"
    size = f"{size_on_disk(folder) / 1e6:,.0f} MB"
    try:
        found = describe(folder, name)
    except CommandError:
        return name, f"damaged: scalednl data get {name}", size, "-", "-", str(folder)
    images = f"{found.train_images + found.test_images:,}"
    return name, "ready", size, images, str(len(found.class_names)), str(folder)


def _folder_rows(root: Path) -> Iterator[tuple[str, ...]]:
    """Folders of images that have been decoded, each with each of its sizes."""
    from scalednl.lab.data.folder_cache import is_current, stored_folders
    from scalednl.lab.data.store import size_on_disk

    for place, found in stored_folders(root):
        size = f"{size_on_disk(place) / 1e6:,.0f} MB"
        if found is None:
            yield place.name, "damaged: decoded again when used", size, "-", "-", str(place)
            continue
        name = f"{PREFIX}{found.path} ({found.storage})"
        state = "ready" if is_current(found) else "changed or gone: decoded again if used"
        images = f"{found.found.train_images + found.found.test_images:,}"
        yield name, state, size, images, str(found.found.classes), str(place)


def _verify_folder(name: str) -> None:
    from scalednl.lab.console import counted
    from scalednl.lab.data.folder_cache import verify_folder

    listing, problems = verify_folder(name)
    images = len(listing.train) + len(listing.test or ())
    for image, reason in problems:
        print(f"{ascii(image)[1:-1]}: {reason}")
    if words := listing.ignored_words():
        _say(words)
    if problems:
        raise CommandError(
            f"{len(problems):,} of {counted(images, 'image')} in {listing.folder} cannot be read: "
            "remove or replace them"
        )
    classes = len(listing.class_names)
    print(f"{listing.folder}: all {images:,} images of {classes} classes are valid")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
