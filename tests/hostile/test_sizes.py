"""Bounded by the file, not by its claims: weights, checkpoints, pictures, archives, predictions."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from scalednl import create_model, save_model
from tests.hostile.attacked import COUNTS, LONG, Attacked, Outcome, serving
from tests.hostile.runs import ODD, SECRET, places, put
from tests.lab.data.builders import small_cifar, tiny_files, unpacked

SECONDS, MEGABYTES = 2, 300


@pytest.fixture(scope="module")
def torch_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A process that has imported the networks."""
    scratch = tmp_path_factory.mktemp("torch")
    with serving(scratch, "tests.hostile.targets", "scalednl.models.checkpoint") as one:
        yield one


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A process that has imported the readers of pictures and data, and no torch."""
    modules = ("scalednl.lab.attention.read_photo", "scalednl.lab.data.catalogue")
    with serving(tmp_path_factory.mktemp("server"), "tests.hostile.targets", *modules) as one:
        yield one


def _refused(
    server: Attacked, target: str, *arguments: object, seconds: float = SECONDS
) -> Outcome:
    """The sentence of a refusal: one line, within the limits beyond what the server has."""
    idle = server.call("tests.hostile.targets:idle")
    outcome = server.call(f"tests.hostile.targets:{target}", *arguments)
    assert outcome.code == 1, outcome
    assert outcome.within(seconds, idle.megabytes + MEGABYTES), outcome
    assert 0 < len(outcome.said.splitlines()) == 1, outcome
    assert len(outcome.said) < 1200, outcome
    COUNTS["inputs refused"] += 1
    return outcome


def safetensors(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file of any header."""
    return struct.pack("<Q", len(header) if length is None else length) + header + data


ONE = {"weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


def described(tensors: dict[str, Any] = ONE, data: bytes = bytes(8), **model: Any) -> bytes:
    """A file whose header describes this network."""
    values = {"name": "preresnet8", "num_classes": 5, **model}
    text = json.dumps({"format": 1, "model": values})
    return safetensors(json.dumps({"__metadata__": {"scalednl": text}, **tensors}).encode(), data)


WEIGHTS: dict[str, bytes] = {
    "blocks": described(blocks={"count": 10**9}),
    "older-blocks": described(nonlocal_={"blocks": 10**9}),
    "classes": described(num_classes=20_000_000),
    "more-classes": described(num_classes=10**30),
    "heads": described(blocks={"count": 1, "block": {"heads": 10**9}}),
    "embedding": described(blocks={"count": 1, "block": {"embed_channels": 10**9}}),
    "divisors": described(blocks={"count": 1, "block": {"embed_channels": 10**9, "heads": 7}}),
    "deep": described(name="preresnet1000000"),
    "deepest": described(name="preresnet9992"),
    "wide": described(name="wrn28_100000"),
    "wider": described(name=f"wrn28_{10**30}"),
    "long-name": described(name="preresnet" + "9" * 10_000),
    "stage": described(blocks={"count": 1, "stage": 10**9}),
    "huge-shape": described({"weight": {**ONE["weight"], "shape": [10**12]}}),
    "overflow": described({"weight": {**ONE["weight"], "shape": [2**40, 2**40, 2**40]}}),
    "offsets": described({"weight": {**ONE["weight"], "data_offsets": [0, 2**62]}}),
    "many-empty": described(
        {f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(60_000)},
        b"",
        blocks={"count": 59_000},
    ),
    "long-header": safetensors(b"{" + b" " * (60 << 20) + b"}"),
    "claimed-header": safetensors(b"{}", length=2**60),
    "nested-header": safetensors(b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
    "nested-model": safetensors(
        json.dumps({"__metadata__": {"scalednl": "[" * 50_000 + "]" * 50_000}}).encode()
    ),
    "no-model": safetensors(json.dumps(ONE).encode(), bytes(8)),
    "empty": b"",
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_of_strangers(torch_server: Attacked, tmp_path: Path, name: str) -> None:
    """A header that names more than the file contains is refused before a network is made."""
    path = tmp_path / "net.safetensors"
    path.write_bytes(WEIGHTS[name])
    assert str(path) in _refused(torch_server, "weights", path).said


def test_odd_values_in_headers(torch_server: Attacked, tmp_path: Path) -> None:
    """A value of any kind in any place of a header is refused, or gives the same network."""
    path = tmp_path / "net.safetensors"
    save_model(create_model("preresnet8", 5), path)
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    model = json.loads(header["__metadata__"]["scalednl"])
    attacks = [(place, odd) for place in places(model) for odd in ODD]
    for place, odd in attacks if LONG else attacks[::10]:
        header["__metadata__"]["scalednl"] = json.dumps(put(model, place, odd))
        path.write_bytes(safetensors(json.dumps(header).encode(), content[8 + length :]))
        outcome = torch_server.call("tests.hostile.targets:weights", path)
        assert outcome.within(SECONDS, 1000), (place, odd, outcome)
        COUNTS["inputs refused"] += outcome.code


class _Reserves:
    def __reduce__(self) -> tuple[Any, ...]:
        return bytearray, (3 * 10**9,)


def _saved(value: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def _compressed(content: bytes) -> bytes:
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return file.getvalue()


def _itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["model"] = value
    return value


CHECKPOINTS: dict[str, Callable[[], bytes]] = {
    "net.safetensors": lambda: WEIGHTS["huge-shape"],
    "header.safetensors": lambda: WEIGHTS["long-header"],
    "reserves.pth": lambda: pickle.dumps({"state_dict": _Reserves()}, 2),
    "reserves-new.pth": lambda: _saved({"state_dict": _Reserves()}),
    "compressed.pth": lambda: _compressed(_saved({"a": torch.zeros(50_000_000)})),
    "itself.pth": lambda: _saved(_itself()),
    "empty.pth": lambda: b"",
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_of_strangers(torch_server: Attacked, tmp_path: Path, name: str) -> None:
    """Files of torch.save and safetensors take no more memory than they have bytes."""
    path = tmp_path / name
    path.write_bytes(CHECKPOINTS[name]())
    _refused(torch_server, "checkpoint", path)


def _png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    head = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    parts = [head, *chunks, (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    written = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 10 10
%%EndComments
(touched) (w) file closefile
showpage
"""
WEBP = b"VP8L" + struct.pack("<IB", 10, 0x2F) + b"\xff\xff\xff\x0f" + bytes(5)
TEXT = zlib.compress(bytes(200 << 20))
PHOTOS: dict[str, tuple[bytes, str]] = {
    "huge.png": (_png(100_000, 100_000), "10000000000 pixels"),
    "large.png": (_png(9_000, 9_000), "9000 x 9000 pixels"),
    "longest.png": (_png(2**31 - 1, 2**31 - 1), "pixels"),
    "short.png": (_png(2_000, 2_000), "is damaged: image file is truncated"),
    "text.png": (_png(2_000, 2_000, (b"zTXt", b"a\0\0" + TEXT)), "is damaged: Decompressed data"),
    "photo.png": (EPS, "not a valid picture"),
    "photo.gif": (b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0), "picture"),
    "photo.webp": (b"RIFF" + struct.pack("<I", len(WEBP) + 4) + b"WEBP" + WEBP, "pi"),
    "photo.bmp": (
        b"BM" + struct.pack("<IIIIiiHHIIIIII", 99, 0, 54, 40, 60_000, 60_000, 1, 24, *[0] * 6),
        "pi",
    ),
    "photo.ppm": (b"P6 1 1 255\n" + bytes(3), "not a valid picture"),
}


@pytest.mark.parametrize("name", PHOTOS)
def test_pictures_of_strangers(server: Attacked, tmp_path: Path, name: str) -> None:
    """Pictures that claim to be huge, and files that are none, are refused before decoding."""
    content, said = PHOTOS[name]
    (tmp_path / name).write_bytes(content)
    assert said in _refused(server, "photo", tmp_path / name).said


@pytest.mark.parametrize("kind", ["pipe", "endless", "self", "sparse"])
def test_files_that_are_none(server: Attacked, tmp_path: Path, kind: str) -> None:
    """Pipes and devices in the place of a picture, predictions or a log are not waited for."""
    for name in ("photo.png", "predictions.npy", "log.txt"):
        path = tmp_path / name
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "sparse":
            with path.open("wb") as file:
                file.truncate(1 << 40)
        else:
            path.symlink_to("/dev/zero" if kind == "endless" else path.name)
    _refused(server, "photo", tmp_path / "photo.png")
    _refused(server, "predictions", tmp_path)
    assert server.call("tests.hostile.targets:log", tmp_path).within(SECONDS, MEGABYTES)


def _npy(head: str, data: bytes = bytes(8)) -> bytes:
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + data


def _array(shape: str, kind: str = "'|u1'") -> bytes:
    return _npy(f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}\n")


PREDICTIONS = {
    "huge": _array("(10**12,)"),
    "huge-number": _array("(1000000000000,)"),
    "overflow": _array(f"({10**30},)"),
    "negative": _array("(-1,)"),
    "many-axes": _array("(1000000, 1000000)"),
    "zeros": _array("(0, 1000000000000)"),
    "objects": _array("(1,)", "'|O'"),
    "records": _array("(1,)", "[('a', '<f8', (100000, 100000))]"),
    "nested": _npy("(" * 9000 + ")" * 9000),
    "long": _npy(" " * 60_000),
    "empty": b"",
    "zip": b"PK\x03\x04" + bytes(100),
}


@pytest.mark.parametrize("name", PREDICTIONS)
def test_predictions_of_strangers(server: Attacked, tmp_path: Path, name: str) -> None:
    """A header that claims another size than the file has is refused before anything is made."""
    (tmp_path / "predictions.npy").write_bytes(PREDICTIONS[name])
    assert "predictions.npy is damaged" in _refused(server, "predictions", tmp_path).said


def _tar(name: str, size: int, **pax: str) -> bytes:
    """A tar with one member of zeros."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo(name)
        info.size, info.pax_headers = size, pax
        archive.addfile(info, io.BytesIO(bytes(size)))
    return file.getvalue()


def _long_name(size: int) -> bytes:
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, size
    return header.tobuf(tarfile.GNU_FORMAT) + bytes(size + -size % 512)


def _overlapping() -> bytes:
    """A zip in which 20,000 names share one compressed content of 200 kB."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t/wnids.txt", "n0")
        archive.writestr("t/a.JPEG", bytes(200_000))
        first = archive.infolist()[1]
        for number in range(20_000):
            copied = zipfile.ZipInfo(f"t/{number}.JPEG")
            for field in ("header_offset", "CRC", "compress_size", "file_size", "compress_type"):
                setattr(copied, field, getattr(first, field))
            archive.filelist.append(copied)
    return file.getvalue()


SPARSE = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(10**9)}
ARCHIVES: dict[str, Callable[[], bytes]] = {
    "sparse.tar": lambda: _tar("data_batch_1.bin", 512, **SPARSE),
    "sparse.tar.gz": lambda: gzip.compress(_tar("x", 512, **SPARSE)),
    "zeros.tar.gz": lambda: gzip.compress(_tar("data_batch_1.bin", 150 << 20)),
    "zeros.tar.xz": lambda: lzma.compress(_tar("other", 300 << 20), preset=0),
    "zeros.tar.bz2": lambda: bz2.compress(_tar("data_batch_1.bin", 100 << 20)),
    "header.tar.gz": lambda: gzip.compress(_long_name(200 << 20)),
    "pax.tar.gz": lambda: gzip.compress(_tar("a", 0, comment="x" * (60 << 20))),
    "overlapping.zip": _overlapping,
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_of_strangers(server: Attacked, tmp_path: Path, name: str) -> None:
    """Sparse members, bombs of zeros, huge headers: no archive grows beyond 20 times its size."""
    path = tmp_path / name
    path.write_bytes(ARCHIVES[name]())
    data = "tiny-imagenet" if name.endswith(".zip") else "cifar10"
    assert name in _refused(server, "data", data, path, seconds=5).said


def test_folders_of_strangers(server: Attacked, tmp_path: Path) -> None:
    """Links out of a folder are not followed, and no line of the file there is quoted."""
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\t{SECRET}\n" * 3)
    for number, (data, files) in enumerate(
        [("tiny-imagenet", tiny_files()), ("cifar10", small_cifar()[1])]
    ):
        for name in [name for name in files if not name.endswith(".JPEG")]:
            folder = unpacked(tmp_path / f"{number}-{len(list(tmp_path.iterdir()))}", files)
            (folder / name).unlink()
            (folder / name).symlink_to(secret)
            outcome = _refused(server, "data", data, folder, seconds=5)
            assert SECRET not in outcome.said
            (folder / name).unlink()
            os.mkfifo(folder / name)
            assert SECRET not in server.call("tests.hostile.targets:data", data, folder).said
