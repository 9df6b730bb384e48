"""A data set by name, ready to train on."""

from pathlib import Path

from scalednl.config import PairsConfig
from scalednl.data import store
from scalednl.data.arrays import load_splits
from scalednl.data.catalogue import find_info
from scalednl.data.errors import DataError
from scalednl.data.pairs import class_names, make_pairs
from scalednl.data.splits import ImageData


def load_data(
    name: str, root: str | Path | None = None, pairs: PairsConfig | None = None, seed: int = 0
) -> ImageData:
    """Images and labels of a data set.

    Args:
        name: `cifar10`, `cifar100`, `tiny-imagenet`, or `pairs`, which is made on the spot.
        root: the folder of all data sets; $SCALEDNL_DATA or the platform's cache folder if None.
        pairs: how hard `pairs` is.
        seed: of `pairs`; the others are what they are.
    """
    info = find_info(name)
    if info.embedded:
        config = pairs or PairsConfig()
        train, test = make_pairs(config, seed)
        return ImageData(name, train, test, class_names(config), info.mean, info.std)
    place = store.data_root(None if root is None else Path(root))
    _, description = store.find(place, name)
    splits = load_splits(place, info)
    counts = description.train_images, description.test_images
    if counts != (len(splits["train"]), len(splits["test"])):
        raise DataError(
            f"{place / name} holds other images than its dataset.json says: run `scalednl data get "
            f"{name}`"
        )
    return ImageData(
        name,
        splits["train"],
        splits["test"],
        description.class_names,
        info.mean,
        info.std,
        info.coarse_names,
    )
