"""Facts of the data sets: names, sizes, classes, normalisation, augmentation.

| name | training + test images | classes |
|---|---|---|
| `cifar10`, `cifar100` | 50,000 + 10,000 of 32 x 32 pixels | 10 or 100 |
| `tiny-imagenet` | 100,000 + 10,000 of 64 x 64 pixels, seen by networks as crops of 56 x 56 | 200 |
| `pairs`, `recall` | generated: sizes and classes are options (`lab.config.generated`) | |
| `folder:PATH` | images of your own, of the side that you choose (`lab.config.folder`) | folders |
"""

import os
from dataclasses import dataclass

from scalednl.errors import UsageError
from scalednl.options import suggestion

Triple = tuple[float, float, float]

CIFAR10_NAMES = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR100_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch
crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo
keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse
mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy
porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper
snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television
tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""


@dataclass(frozen=True)
class DataFacts:
    """What is known of a data set before any file of it is opened."""

    name: str
    words: str
    """The name for readers"""
    mean: Triple
    """Normalisation of the channels: (pixel / 255 - mean) / std"""
    std: Triple
    side: int = 0
    """Height and width of a stored image in pixels; 0 where options decide"""
    crop_side: int | None = None
    """Side of the crops that networks see, resized for training; None: complete images, padded"""
    classes: int = 0
    train_images: int = 0
    class_names: tuple[str, ...] = ()
    """In the order of the labels, where every copy has the same classes"""

    @property
    def is_generated(self) -> bool:
        """Whether images are generated from options, with nothing to download."""
        return not self.side

    @property
    def input_side(self) -> int:
        """Height and width of an image as networks see it."""
        return self.crop_side or self.side


def _cifar(name: str, words: str, class_names: str) -> DataFacts:
    names = tuple(class_names.split())
    return DataFacts(
        name,
        words,
        # The published recipe's values for both; the true deviations are .2470 .2435 .2616.
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2023, 0.1994, 0.2010),
        side=32,
        classes=len(names),
        train_images=50_000,
        class_names=names,
    )


def _generated(name: str) -> DataFacts:
    # Grey 128 becomes 0 and one unit is 40 levels, so that the gratings' amplitude of 2 is 80.
    return DataFacts(name, f"{name} (generated)", (128 / 255,) * 3, (40 / 255,) * 3)


DATA_SETS = {
    facts.name: facts
    for facts in (
        _cifar("cifar10", "CIFAR-10", CIFAR10_NAMES),
        _cifar("cifar100", "CIFAR-100", CIFAR100_NAMES),
        DataFacts(
            "tiny-imagenet",
            "Tiny-ImageNet",
            mean=(0.485, 0.456, 0.406),
            std=(0.229, 0.224, 0.225),
            side=64,
            crop_side=56,
            classes=200,
            train_images=100_000,
        ),
        _generated("pairs"),
        _generated("recall"),
    )
}


def is_generated(name: str) -> bool:
    """Whether a data set of this name is generated; images in a folder are not."""
    return name in DATA_SETS and DATA_SETS[name].is_generated


def find_data_set(name: str) -> DataFacts:
    """The facts of a data set; an unknown name is a UsageError that suggests one."""
    if name in DATA_SETS:
        return DATA_SETS[name]
    hint = suggestion(name, DATA_SETS) or f"; use one of {', '.join(DATA_SETS)} or folder:PATH"
    if os.path.isdir(name):
        hint = f"; for the images in that folder, use folder:{name}"
    raise UsageError(f"no data set is called {name!r}{hint}")
