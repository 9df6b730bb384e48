"""Files of any data set to images and labels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scalednl.lab.data import cifar, tiny_imagenet
from scalednl.lab.data.catalogue import DataInfo
from scalednl.lab.data.splits import Split


@dataclass(frozen=True)
class Decoded:
    """Splits, names of the classes, and those files that were needed."""

    splits: dict[str, Split]
    class_names: tuple[str, ...]
    files: Mapping[str, bytes]


def read_source(source: Path, info: DataInfo) -> dict[str, bytes]:
    """The files of a data set from an archive or folder, CIFAR's compared with their hashes."""
    if info.cifar is None:
        return tiny_imagenet.read_files(source)
    files = cifar.read_binary_files(source, info)
    cifar.check_hashes(files, info, source)
    return files


def decode_files(
    files: Mapping[str, bytes], info: DataInfo, source: Path, advance: Callable[[int], None]
) -> Decoded:
    """Every image of the files; `advance` hears of images done."""
    if info.cifar is not None:
        return Decoded(cifar.decode_splits(files, info), info.class_names, files)
    plan = tiny_imagenet.layout(files, source)
    return Decoded(
        tiny_imagenet.decode(files, plan, source, advance),
        tiny_imagenet.class_names(files, plan),
        tiny_imagenet.used_files(files, plan),
    )
