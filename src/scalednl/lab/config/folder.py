"""Configuration of a data set of the user's own images: `folder:PATH`."""

import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from scalednl.errors import UsageError
from scalednl.lab.config.data_sets import DataFacts, Triple

PREFIX = "folder:"
SMALL_SIDE = 48
"""Images up to this side are augmented as CIFAR's are, larger ones as Tiny-ImageNet's"""
LARGEST_SIDE = 1024
Resize = Literal["crop", "stretch", "pad"]
Augmentation = Literal["auto", "padded", "resized"]


@dataclass(frozen=True)
class FolderFacts:
    """What was found in a folder when its images were first read."""

    content: str
    """Fingerprint of the classes, and of the name and the bytes of every image"""
    classes: int
    train_images: int
    test_images: int
    mean: Triple
    """Each channel's mean over all training images, in 0 to 1"""
    std: Triple


@dataclass(frozen=True)
class FolderConfig:
    """How images of any size become squares, and how they are split and augmented."""

    side: int = 64
    """Height and width of the images that networks see"""
    resize: Resize = "crop"
    """"crop" makes the shorter side fit and keeps the middle, "stretch" makes both sides fit,
    "pad" makes the longer side fit and fills up with black"""
    held_out: float = 0.1
    """Share of each class that is held out for tests where the folder has no val or test"""
    augmentation: Augmentation = "auto"
    """"padded" shifts by up to 4 pixels, "resized" takes random parts; "auto" pads up to side 48"""
    mirror: bool = True
    """Mirror half of the training images; switch it off where left and right differ, as in text"""
    found: Annotated[FolderFacts | None, tyro.conf.Suppress] = None
    """What the images are; a training on other images is another experiment"""

    def __post_init__(self) -> None:
        if not 8 <= self.side <= LARGEST_SIDE:
            raise UsageError(f"--folder.side must be in 8 to {LARGEST_SIDE}, got {self.side}")
        if not 0 < self.held_out < 1:
            raise UsageError(
                f"--folder.held-out must be more than 0 and less than 1, got {self.held_out}"
            )

    @property
    def is_resized(self) -> bool:
        """Whether networks are trained on random parts, resized."""
        if self.augmentation == "auto":
            return self.side > SMALL_SIDE
        return self.augmentation == "resized"

    @property
    def storage(self) -> str:
        """The options that decide what is stored."""
        return f"side={self.side} resize={self.resize} held_out={self.held_out!r}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        values = asdict(self)
        if self.found is not None:
            values["found"] |= {name: list(values["found"][name]) for name in ("mean", "std")}
        return values

    def facts(self, data: str) -> DataFacts:
        """The facts of a data set with these options; those of its images where they are known."""
        letters = "" if self.found is None else f"-{self.found.content[:6]}"
        found = self.found or FolderFacts("", 0, 0, 0, (0.0,) * 3, (1.0,) * 3)
        return DataFacts(
            f"{PREFIX}{short_name(data)}{letters}",
            f"the images in {folder_path(data)}",
            *(found.mean, found.std, self.side, self.side if self.is_resized else None),
            *(found.classes, found.train_images),
        )


def is_folder(data: str) -> bool:
    """Whether a data set is a folder of the user's own images."""
    return data.startswith(PREFIX)


def folder_path(data: str) -> Path:
    """The folder of `folder:PATH`; a path that no record can hold is a UsageError."""
    path = data.removeprefix(PREFIX)
    if not path:
        raise UsageError("folder: must name a folder, as in folder:photos")
    if not path.isprintable():
        raise UsageError(
            f"the path of {data!a} has characters that cannot be recorded: rename the folder"
        )
    # A shell leaves the ~ of folder:~/photos alone.
    return Path(os.path.expanduser(path))


def check_folder_is_there(data: str, source: Path) -> None:
    """Raise if the images that a run was trained on were moved, and say what to add."""
    if is_folder(data) and not folder_path(data).exists():
        raise UsageError(
            f"the images that {source} was trained on are no longer in {folder_path(data)}: add "
            "--data folder:PATH, the folder's new path"
        )


def short_name(data: str) -> str:
    """The last part of the path in letters that every file system takes."""
    name = os.path.basename(os.path.abspath(folder_path(data)))
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:40] or "images"
