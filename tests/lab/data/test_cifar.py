"""CIFAR in every version gives the official records; what does not match its hash is refused."""

import hashlib
import io
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scalednl.lab.data.errors import DataError
from tests.lab.data.builders import (
    encoded,
    npm_version,
    python_version,
    small_cifar,
    tar,
    unpacked,
)


@pytest.mark.parametrize("form", ["data.tar.gz", "data.tar.xz", "data.tar", "data.tgz", "folder"])
@pytest.mark.parametrize(
    ("version", "coarse"),
    [("binary", False), ("binary", True), ("python", False), ("python", True), ("npm", False)],
)
def test_every_version_gives_the_official_bytes(
    tmp_path: Path, coarse: bool, form: str, version: str
) -> None:
    """Archives and folders of all versions are converted to the same binary files."""
    data, files = small_cifar(coarse)
    make = {"binary": lambda *_: files, "python": python_version, "npm": npm_version}[version]
    content = make(data, files)
    source = tmp_path / form
    unpacked(source, content) if form == "folder" else tar(source, content)
    assert data.read_source(source) == files


def test_records_are_label_then_planes() -> None:
    """The second of two label bytes is the label, and the planes are red, green and blue."""
    data, files = small_cifar(coarse=True, records=1)
    splits = data.decode(files, Path("source"), lambda _: None).splits
    for split, name in (("train", "train.bin"), ("test", "test.bin")):
        record = np.frombuffer(files[name], np.uint8)
        assert splits[split].labels.tolist() == [record[1]]
        planes = record[2:].reshape(3, 32, 32)
        assert np.array_equal(splits[split].images[0], planes.transpose(1, 2, 0))


def test_bad_files_are_named(tmp_path: Path) -> None:
    """A flipped byte, a missing file, another file under the name, and the same file twice."""
    data, files = small_cifar()
    first = "data_batch_1.bin"
    flipped = bytearray(files[first])
    flipped[100] ^= 1
    rest = {name: content for name, content in files.items() if name != first}
    cases = {
        "is not the official file": {**files, first: bytes(flipped)},
        "lacks data_batch_1.bin": rest,
        "data_batch_1.bin is not the official": {**files, first: b"hello"},
        "contains no file of CIFAR-10": {"readme.txt": b"hello"},
        "more than once": {**files, f"copy/{first}": files[first]},
    }
    for index, (sentence, content) in enumerate(cases.items()):
        source = tar(tmp_path / f"{index}.tar", content)
        with pytest.raises(DataError, match=sentence):
            data.decode(data.read_source(source), source, lambda _: None)
    with pytest.raises(DataError, match=r"data_batch_1\.bin is not the official file"):
        data.decode(rest, tmp_path, lambda _: None)


class _Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("touch scalednl-was-here",)


@pytest.mark.parametrize(
    "content",
    [pickle.dumps({b"data": _Malicious()}, protocol=2), b"", b"hello", b"\x1b[2J" * 1000],
    ids=["call", "nothing", "text", "control characters"],
)
def test_a_pickle_that_is_not_official_is_never_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """It is refused by its hash, in one sentence that suggests the binary version."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pickle, "loads", _never)
    data, files = small_cifar()
    pickles = {**python_version(data, files), "data_batch_1": content}
    with pytest.raises(DataError, match=r"data_batch_1 .*use the binary version, http") as caught:
        data.read_source(tar(tmp_path / "cifar.tar", pickles))
    assert str(caught.value).isprintable()
    assert not Path("scalednl-was-here").exists()


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a pickle was loaded")


def test_a_pickle_of_python_2_is_read(tmp_path: Path) -> None:
    """The opcodes of the official files, written by Python 2 and an early numpy, are understood."""
    data, files = small_cifar()
    pickles = python_version(data, files)
    batch = pickle.loads(pickles["data_batch_1"])
    pickles["data_batch_1"] = _python2_pickle(batch[b"data"], batch[b"labels"])
    known = {name: hashlib.md5(content).hexdigest() for name, content in pickles.items()}
    source = tar(tmp_path / "cifar.tar", pickles)
    assert replace(data, pickle_md5=known).read_source(source) == files


def _python2_pickle(images: np.ndarray, labels: list[int]) -> bytes:
    """Protocol 2 with byte strings, and an array as numpy.core.multiarray wrote it."""
    out = io.BytesIO()
    out.write(b"\x80\x02}(U\x04data" + b"cnumpy.core.multiarray\n_reconstruct\n")
    out.write(b"cnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01")
    out.write(b"K" + bytes([len(images)]) + b"M" + (3072).to_bytes(2, "little") + b"\x86")
    out.write(b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xff")
    out.write(b"J\xff\xff\xff\xffK\x00tb\x89")
    out.write(b"T" + images.size.to_bytes(4, "little") + images.tobytes() + b"tb")
    out.write(b"U\x06labels](" + b"".join(b"K" + bytes([label]) for label in labels) + b"eu.")
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("data_batch_1.png", b"\x89PNG\r\n", "not a valid PNG"),
        ("data_batch_1.png", encoded(Image.new("RGB", (10, 10)), "PNG"), "10 x 10"),
        ("train_lables.json", b'["a"]', "not a list of 15 labels"),
        ("train_lables.json", b"[[", "not a list of 15 labels"),
        ("train_lables.json", b"[1, 2]", "not a list of 15 labels"),
        ("train_lables.json", b"[300]", "not a list of 15 labels"),
        ("train_lables.json", b"[" * 100_000, "not a list of 15 labels"),
    ],
)
def test_bad_npm_packages_are_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    """A damaged image or list in the npm package is named."""
    data, files = small_cifar()
    source = tar(tmp_path / "a.tgz", {**npm_version(data, files), name: content})
    with pytest.raises(DataError, match=said):
        data.read_source(source)
