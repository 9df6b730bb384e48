"""A data set by name, ready to train on."""

import warnings
from pathlib import Path
from typing import Any

from scalednl.errors import UsageError
from scalednl.lab.config import FolderConfig, PairsConfig, RecallConfig
from scalednl.lab.config.data_sets import find_data_set
from scalednl.lab.config.folder import is_folder
from scalednl.lab.config.generated import GENERATED
from scalednl.lab.console import track
from scalednl.lab.data import pairs, recall, store
from scalednl.lab.data.arrays import StaleError, open_arrays, write_arrays
from scalednl.lab.data.catalogue import CATALOGUE
from scalednl.lab.data.data_set import DataSet
from scalednl.lab.data.errors import DataError, DiskError, writing_data
from scalednl.lab.data.folder_cache import load_folder
from scalednl.lab.data.gratings import Draw, make_splits, turn_names
from scalednl.lab.data.splits import ImageData, Split

DRAWS: dict[str, Draw[Any]] = {"pairs": pairs.draw, "recall": recall.draw}
"""What each generated data set adds to noise"""


def load_data(
    name: str,
    root: str | Path | None = None,
    options: PairsConfig | RecallConfig | FolderConfig | None = None,
    seed: int = 0,
) -> ImageData:
    """Images and labels of a data set.

    Args:
        name: `cifar10`, `cifar100`, `tiny-imagenet`; `pairs` or `recall`, which are generated; or
            `folder:PATH`, images of your own.
        root: the folder of all data sets; $SCALEDNL_DATA or the platform's cache folder if None.
        options: options of a generated data set, or of a folder of images.
        seed: seed of the generated training images; test images are the same for every seed.
    """
    place = None if root is None else Path(root)
    kind = FolderConfig if is_folder(name) else GENERATED.get(find_data_set(name).name)
    if options is not None and type(options) is not kind:
        raise UsageError(f"{name} does not take these options: {options}")
    if is_folder(name):
        assert options is None or isinstance(options, FolderConfig)
        return load_folder(name, options, place)
    facts = find_data_set(name)
    assert not isinstance(options, FolderConfig)
    if facts.is_generated:
        options = options or GENERATED[name]()
        train, test = make_splits(options, DRAWS[name], seed)
        names = turn_names(options.orientations)
        return ImageData(name, train, test, names, facts.mean, facts.std)
    place = store.data_root(place)
    folder, description = store.find(place, name)
    splits = load_splits(place, CATALOGUE[name])
    train, test = splits["train"], splits["test"]
    if (description.train_images, description.test_images) != (len(train), len(test)):
        raise DataError(
            f"{folder} contains other images than its dataset.json describes: "
            f"{store.get_again(folder)}"
        )
    return ImageData(name, train, test, description.class_names, facts.mean, facts.std)


def load_splits(root: Path, data: DataSet) -> dict[str, Split]:
    """The splits of a stored data set, from its arrays if these are valid."""
    folder = root / data.name
    try:
        return open_arrays(folder)
    except StaleError:
        pass
    try:
        with store.locked(root, data.name):
            try:
                # Another process may have written them while this one waited.
                return open_arrays(folder)
            except StaleError as stale:
                splits = _decode(folder, data, f"Decoding {data.facts.words} again: {stale.reason}")
            with writing_data(root):
                write_arrays(folder, splits)
            return splits
    except DiskError as error:
        # A shared folder without write access, or a full disk.
        warnings.warn(f"decoded arrays are not stored: {error}", stacklevel=3)
        return _decode(folder, data, f"Decoding {data.facts.words}")


def _decode(folder: Path, data: DataSet, what: str) -> dict[str, Split]:
    files = store.read_files(folder, data)
    with track(what, len(files)) as advance:
        return data.decode(files, folder, advance).splits
