"""Damage of any kind meets our own error class, and nothing else."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scalednl.lab.data.catalogue import TINY_INFO, DataInfo
from scalednl.lab.data.decode import decode_files, read_source
from scalednl.lab.data.errors import DataError
from scalednl.lab.data.pickles import read_batch
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


def _archive(kind: str) -> tuple[DataInfo, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        if kind == "tiny.zip":
            return TINY_INFO, zipped(Path(folder) / kind, tiny_files(1, 1, 1)).read_bytes()
        content = npm_version(CIFAR, FILES) if kind == "npm.tgz" else FILES
        return CIFAR, tar(Path(folder) / kind, content).read_bytes()


KINDS = ("a.tar", "a.tar.gz", "a.tar.xz", "npm.tgz", "tiny.zip")
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
    """Whatever bytes are changed or lost, an archive is read right or refused in a sentence."""
    info, content = ARCHIVES[kind]
    source = tmp_path / kind
    source.write_bytes(_damaged(content, damage, keep))
    try:
        found = decode_files(read_source(source, info), info, source, lambda _: None)
    except DataError as error:
        said = str(error)
    else:
        said = "read right"
        assert info is TINY_INFO or found.files == FILES
    assert "\n" not in said


@given(content=st.binary(max_size=600))
@example(content=b"PK\x03\x04")
@example(content=b"\x1f\x8b\x08\x00")
@example(content=b"\xfd7zXZ\x00")
@FUZZ
def test_arbitrary_files(tmp_path: Path, content: bytes) -> None:
    """Any file at all is refused, by both readers."""
    source = tmp_path / "file"
    source.write_bytes(content)
    for info in (CIFAR, TINY_INFO):
        with pytest.raises(DataError):
            read_source(source, info)


@given(damage=DAMAGE, keep=st.sampled_from([1.0, 1.0, 0.99, 0.5, 0.1]))
@FUZZ
def test_damaged_pickles(damage: list[tuple[float, bytes]], keep: float) -> None:
    """A damaged pickle gives a batch of the right kind or our error."""
    content = python_version(CIFAR, FILES)["data_batch_1"]
    # The interesting bytes are those around the pixels.
    head, pixels, tail = content[:180], content[180:-150], content[-150:]
    small = _damaged(head + tail, damage, keep)
    for trial in (small, small[:180] + pixels + small[180:]):
        try:
            _use(trial)
        except DataError as error:
            said = str(error)
        else:
            said = "data_batch_1"
        assert "data_batch_1" in said


@given(content=st.binary(max_size=200))
@FUZZ
def test_arbitrary_pickles(content: bytes) -> None:
    """Random opcodes run nothing and stop."""
    for start in (b"\x80\x02}", b""):
        with pytest.raises(DataError):
            _use(start + content)


def _use(content: bytes) -> None:
    batch = read_batch(content, "data_batch_1")
    assert batch.images(3072).shape[1] == 3072
    assert all(0 <= label < 10 for label in batch.labels("labels", 10))
