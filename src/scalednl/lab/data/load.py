"""A data set by name, ready to train on."""

from pathlib import Path

from scalednl.lab.config import PairsConfig, RecallConfig
from scalednl.lab.data import store
from scalednl.lab.data.arrays import load_splits
from scalednl.lab.data.catalogue import DataInfo, find_info
from scalednl.lab.data.errors import DataError
from scalednl.lab.data.gratings import turn_names
from scalednl.lab.data.pairs import make_pairs
from scalednl.lab.data.recall import make_recall
from scalednl.lab.data.splits import ImageData


def load_data(
    name: str,
    root: str | Path | None = None,
    pairs: PairsConfig | None = None,
    recall: RecallConfig | None = None,
    seed: int = 0,
) -> ImageData:
    """Images and labels of a data set.

    Args:
        name: `cifar10`, `cifar100`, `tiny-imagenet`, or `pairs` or `recall`, which are generated.
        root: the folder of all data sets; $SCALEDNL_DATA or the platform's cache folder if None.
        pairs: options of `pairs`.
        recall: options of `recall`.
        seed: seed of the generated training images; test images are the same for every seed.
    """
    info = find_info(name)
    if info.embedded:
        return _generated(info, pairs or PairsConfig(), recall or RecallConfig(), seed)
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


def _generated(info: DataInfo, pairs: PairsConfig, recall: RecallConfig, seed: int) -> ImageData:
    config: PairsConfig | RecallConfig = recall if info.name == "recall" else pairs
    train, test = make_recall(recall, seed) if config is recall else make_pairs(pairs, seed)
    names = turn_names(config.orientations)
    return ImageData(info.name, train, test, names, info.mean, info.std)
