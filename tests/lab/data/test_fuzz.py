"""Damage of any kind raises DataError, and nothing else."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scalednl.lab.data.catalogue import TINY_IMAGENET
from scalednl.lab.data.data_set import DataSet
from scalednl.lab.data.errors import DataError
from tests.lab.data.builders import (
    npm_version,
    python_version,
    small_cifar,
    tar,
    tiny_files,
    zipped,
)

CIFAR, FILES = small_cifar(records=1)
FUZZ = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _archive(kind: str) -> tuple[DataSet, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        if kind == "tiny.zip":
            return TINY_IMAGENET, zipped(Path(folder) / kind, tiny_files(1, 1, 1)).read_bytes()
        versions = {"npm.tgz": npm_version, "python.tar": python_version}
        content = versions[kind](CIFAR, FILES) if kind in versions else FILES
        return CIFAR, tar(Path(folder) / kind, content).read_bytes()


KINDS = ("a.tar", "a.tar.gz", "a.tar.xz", "npm.tgz", "python.tar", "tiny.zip")
ARCHIVES = {kind: _archive(kind) for kind in KINDS}
DAMAGE = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=8)), max_size=4)


def _damaged(content: bytes, damage: list[tuple[float, bytes]], keep: float) -> bytes:
    changed = bytearray(content[: round(len(content) * keep)])
    for place, new in damage:
        start = int(place * len(changed))
        changed[start : start + len(new)] = new
    return bytes(changed)


@pytest.mark.parametrize("kind", ARCHIVES)
@given(damage=DAMAGE, keep=st.sampled_from([1.0, 1.0, 0.99, 0.5]))
@FUZZ
def test_damaged_archives(
    tmp_path: Path, kind: str, damage: list[tuple[float, bytes]], keep: float
) -> None:
    """Whatever bytes are changed or lost, an archive is read correctly or refused in a sentence."""
    data, content = ARCHIVES[kind]
    source = tmp_path / kind
    source.write_bytes(_damaged(content, damage, keep))
    try:
        found = data.decode(data.read_source(source), source, lambda _: None)
    except DataError as error:
        sentence = str(error)
    else:
        sentence = ""
        assert data is TINY_IMAGENET or found.files == FILES
    assert "\n" not in sentence


@given(content=st.binary(max_size=600))
@example(content=b"PK\x03\x04")
@example(content=b"\x1f\x8b\x08\x00")
@example(content=b"\xfd7zXZ\x00")
@FUZZ
def test_arbitrary_files(tmp_path: Path, content: bytes) -> None:
    """Any file at all is refused, by both readers."""
    source = tmp_path / "file"
    source.write_bytes(content)
    for data in (CIFAR, TINY_IMAGENET):
        with pytest.raises(DataError):
            data.read_source(source)
