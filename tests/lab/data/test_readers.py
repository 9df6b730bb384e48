"""Official files, in every form people have them, give the same records; bad ones a sentence."""

import hashlib
import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scalednl.lab.data import cifar, tiny_imagenet
from scalednl.lab.data.archives import read_members
from scalednl.lab.data.catalogue import TINY_INFO
from scalednl.lab.data.decode import decode_files, read_source
from scalednl.lab.data.errors import DataError
from tests.lab.data.builders import (
    encoded,
    npm_version,
    python_version,
    random_images,
    small_cifar,
    tar,
    tiny_files,
    unpacked,
    zipped,
)


@pytest.mark.parametrize("form", ["data.tar.gz", "data.tar.xz", "data.tar", "data.tgz", "folder"])
@pytest.mark.parametrize(
    ("version", "coarse"),
    [("binary", False), ("binary", True), ("python", False), ("python", True), ("npm", False)],
)
def test_every_form_of_cifar_gives_the_official_bytes(
    tmp_path: Path, coarse: bool, form: str, version: str
) -> None:
    """Archives and folders of all versions are re-packed to the same hashes."""
    info, files = small_cifar(coarse)
    make = {"binary": lambda *_: files, "python": python_version, "npm": npm_version}[version]
    content = make(info, files)
    source = tmp_path / form
    unpacked(source, content) if form == "folder" else tar(source, content)
    assert read_source(source, info) == files


def test_records_are_label_then_planes() -> None:
    """A record written by hand decodes to the pixels and labels that it spells."""
    info, _ = small_cifar(coarse=True)
    pixels = bytes(range(256)) * 12
    split = cifar.decode(bytes([7, 42]) + pixels, info, "train.bin")
    assert split.coarse is not None
    assert (split.coarse.tolist(), split.labels.tolist()) == ([7], [42])
    planes = np.frombuffer(pixels, np.uint8).reshape(3, 32, 32)
    assert np.array_equal(split.images[0], planes.transpose(1, 2, 0))
    assert cifar.encode(split.images, split.labels, split.coarse) == bytes([7, 42]) + pixels


@pytest.mark.parametrize("form", ["zip", "folder"])
def test_tiny_imagenet_reads_its_layout(tmp_path: Path, form: str) -> None:
    """Labels follow wnids.txt, test images the annotations, and greyscale becomes RGB."""
    files = tiny_files(classes=3)
    extra = {**files, "test/images/test_0.JPEG": b"never read", "train/n00000000/boxes.txt": b""}
    source = tmp_path / "tiny"
    source = unpacked(source, extra) if form == "folder" else zipped(source, extra)
    found = decode_files(read_source(source, TINY_INFO), TINY_INFO, source, lambda _: None)
    assert found.class_names == ("thing 0", "thing 1", "thing 2")
    assert found.splits["train"].labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert found.splits["test"].labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert set(found.files) == set(files)
    grey = found.splits["train"].images[0]
    assert (grey == grey[..., :1]).all()
    name = "train/n00000001/images/n00000001_1.JPEG"
    assert np.array_equal(
        found.splits["train"].images[4], np.asarray(Image.open(io.BytesIO(files[name])))
    )


def test_a_subset_of_classes_ignores_the_others(tmp_path: Path) -> None:
    """With one class in wnids.txt, images and annotations of the rest are left out."""
    files = {**tiny_files(classes=3), "wnids.txt": b"n00000001\n"}
    source = zipped(tmp_path / "tiny.zip", files)
    found = decode_files(read_source(source, TINY_INFO), TINY_INFO, source, lambda _: None)
    assert found.class_names == ("thing 1",)
    assert (len(found.splits["train"]), len(found.splits["test"])) == (3, 2)


def _without(files: dict[str, bytes], prefix: str) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if not name.startswith(prefix)}


def _claiming(jpeg: bytes) -> bytes:
    """A picture that says it is 65000 pixels high and wide."""
    start = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:start] + (65000).to_bytes(2, "big") * 2 + jpeg[start + 4 :]


BAD_TINY: dict[str, tuple[Callable[[dict[str, bytes]], dict[str, bytes]], str]] = {
    "missing class folder": (
        lambda f: _without(f, "train/n00000001"),
        "no images in train/n000000",
    ),
    "annotation of no file": (lambda f: _without(f, "val/images/val_1"), "names val_1.JPEG"),
    "no annotations": (lambda f: _without(f, "val/val_ann"), "has no val/val_annotations.txt"),
    "no classes": (lambda f: {**f, "wnids.txt": b""}, "names no class"),
    "no wnids": (lambda f: _without(f, "wnids"), "holds no wnids.txt"),
    "class twice": (lambda f: {**f, "wnids.txt": b"n00000000 n00000000"}, "one of them twice"),
    "not text": (lambda f: {**f, "wnids.txt": b"\xff\xfe\x00"}, "is not text"),
    "odd line": (lambda f: {**f, "val/val_annotations.txt": b"val_0.JPEG"}, "line 1 of"),
    "corrupt JPEG": (
        lambda f: {**f, "val/images/val_0.JPEG": f["val/images/val_0.JPEG"][:200]},
        "val/images/val_0.JPEG is not a sound JPEG",
    ),
    "no JPEG": (lambda f: {**f, "val/images/val_0.JPEG": b"GIF89a"}, "not a sound JPEG"),
    "other size": (
        lambda f: {
            **f,
            "val/images/val_0.JPEG": encoded(Image.fromarray(random_images(1, 32)[0]), "JPEG"),
        },
        "is 32 x 32 pixels, not 64 x 64",
    ),
    "huge claim": (
        lambda f: {**f, "val/images/val_0.JPEG": _claiming(f["val/images/val_0.JPEG"])},
        "val_0.JPEG is",
    ),
    "annotated twice": (
        lambda f: {**f, "val/val_annotations.txt": f["val/val_annotations.txt"] * 2},
        "line 4 of|more than once",
    ),
    "cut annotations": (
        lambda f: {
            **f,
            "val/val_annotations.txt": b"\n".join(f["val/val_annotations.txt"].split(b"\n")[:3]),
        },
        "1 images of one class and 2 of another",
    ),
    "odd name": (lambda f: {**f, "val/images/a\u2028b.JPEG": b""}, "no honest copy does"),
    "huge image": (lambda f: {**f, "val/images/val_0.JPEG": bytes(2**19)}, "at most 262,144"),
}


@pytest.mark.parametrize("case", BAD_TINY)
def test_a_bad_tiny_imagenet_is_named(tmp_path: Path, case: str) -> None:
    """Each fault is one sentence that says where it is."""
    change, said = BAD_TINY[case]
    source = zipped(tmp_path / "tiny.zip", change(tiny_files()))
    with pytest.raises(DataError, match=said) as caught:
        decode_files(read_source(source, TINY_INFO), TINY_INFO, source, lambda _: None)
    assert str(source) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_cifar_files_are_named(tmp_path: Path) -> None:
    """A flipped byte, a missing file, another file under the name, and twice the same file."""
    info, files = small_cifar()
    first = "data_batch_1.bin"
    flipped = bytearray(files[first])
    flipped[100] ^= 1
    cases = {
        "is not the official file": {**files, first: bytes(flipped)},
        "lacks data_batch_1.bin": _without(files, first),
        "data_batch_1.bin is not the official": {**files, first: b"hello"},
        "holds no file of CIFAR-10": {"readme.txt": b"hello"},
        "more than once": {**files, f"copy/{first}": files[first]},
    }
    for index, (said, content) in enumerate(cases.items()):
        source = tar(tmp_path / f"{index}.tar", content)
        with pytest.raises(DataError, match=said):
            decode_files(read_source(source, info), info, source, lambda _: None)


def test_a_label_beyond_the_classes_is_named() -> None:
    """A record with label 10 is refused, though its length is right."""
    info, _ = small_cifar()
    with pytest.raises(DataError, match="image 0 has label 10, and there are 10 classes"):
        cifar.decode(bytes([10]) + bytes(3072), info, "data_batch_1.bin")


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.xz", ".tar", ".zip"])
def test_a_truncated_archive_is_named(tmp_path: Path, suffix: str) -> None:
    """An archive cut off anywhere is called damaged, and nothing else happens."""
    info, files = small_cifar()
    whole = tmp_path / f"whole{suffix}"
    whole = zipped(whole, files) if suffix == ".zip" else tar(whole, files)
    content = whole.read_bytes()
    for share in (0.0, 0.01, 0.5, 0.75):
        source = tmp_path / f"cut{suffix}"
        source.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(DataError, match=str(source)):
            read_source(source, info)


def _tar_with(path: Path, info: tarfile.TarInfo, content: bytes = b"") -> Path:
    info.size = len(content)
    with tarfile.open(path, "w") as archive:
        archive.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    "name", ["../evil.bin", "/etc/evil.bin", "a/../../evil.bin", "C:/evil.bin"]
)
def test_paths_out_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    """An archive with such a name is not used at all, tar or zip."""
    info, _ = small_cifar()
    with pytest.raises(DataError, match="a path out of its folder"):
        read_source(_tar_with(tmp_path / "a.tar", tarfile.TarInfo(name), b"x"), info)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(DataError, match="a path out of its folder"):
        read_source(tmp_path / "a.zip", info)


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    """A symbolic or hard link may stay inside, where it is ignored; beyond it is refused."""
    info, _ = small_cifar()
    for kind, target in ((tarfile.SYMTYPE, "../../secret"), (tarfile.LNKTYPE, "../secret")):
        link = tarfile.TarInfo("folder/data_batch_1.bin")
        link.type, link.linkname = kind, target
        with pytest.raises(DataError, match="out of its folder"):
            read_source(_tar_with(tmp_path / "a.tar", link), info)
    link = tarfile.TarInfo("folder/data_batch_1.bin")
    link.type, link.linkname = tarfile.SYMTYPE, "../other/inside"
    with pytest.raises(DataError, match="holds no file"):
        read_source(_tar_with(tmp_path / "a.tar", link), info)


def test_bombs_are_refused_before_they_go_off(tmp_path: Path) -> None:
    """Archives that claim too much are refused from their headers."""
    bomb = tarfile.TarInfo("folder/zeros")
    with tarfile.open(tmp_path / "bomb.tar", "w") as archive:
        bomb.size = 0
        archive.addfile(bomb)
    content = bytearray((tmp_path / "bomb.tar").read_bytes())
    bomb.size = 10**13
    content[:512] = bomb.tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "bomb.tar").write_bytes(content)
    with pytest.raises(DataError, match="far more than"):
        list(read_members(tmp_path / "bomb.tar", lambda _: 10))
    content[:512] = _long_header(10**13)
    (tmp_path / "header.tar").write_bytes(content)
    with pytest.raises(DataError, match="a header claims"):
        list(read_members(tmp_path / "header.tar", lambda _: 10))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr("tiny/wnids.txt", bytes(64 * 2**20))
    with pytest.raises(DataError, match="at most"):
        read_source(tmp_path / "bomb.zip", TINY_INFO)


def _long_header(size: int) -> bytes:
    """The header of an extended header of a given size, which tarfile would read whole."""
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, size
    return header.tobuf(tarfile.GNU_FORMAT)


def test_a_negative_size_does_not_go_round_in_circles(tmp_path: Path) -> None:
    """A member that leads back to itself is refused."""
    first, second = tarfile.TarInfo("a"), tarfile.TarInfo("b")
    header = bytearray(second.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (256**12 - 512).to_bytes(12, "big")
    checksum = 256 + sum(header[:148]) + sum(header[156:512])
    header[148:156] = f"{checksum:06o}\0 ".encode()
    (tmp_path / "a.tar").write_bytes(first.tobuf(tarfile.GNU_FORMAT) + bytes(header) + bytes(1024))
    with pytest.raises(DataError, match="negative size"):
        list(read_members(tmp_path / "a.tar", lambda _: 10))


def test_messages_are_short_and_tame(tmp_path: Path) -> None:
    """What a terminal would obey does not reach it, and a long name is cut."""
    info, files = small_cifar()
    evil = b"c" + b"\x1b[2J" + b"m" * 100_000 + b"\nname\n."
    content = {**python_version(info, files), "data_batch_1": evil}
    with pytest.raises(DataError) as caught:
        read_source(tar(tmp_path / "cifar.tar", content), info)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_a_zip_that_lies_about_its_sizes_is_refused(tmp_path: Path) -> None:
    """A member that unpacks to more than its header says costs no more than the header says."""
    path = tmp_path / "liar.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr("tiny/wnids.txt", bytes(2**20))
    size = (2**20).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (100).to_bytes(4, "little")))
    with pytest.raises(DataError, match=r"liar\.zip"):
        read_source(path, TINY_INFO)


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("touch scalednl-was-here",)


LONG = b"X" + (2 * 10**6).to_bytes(4, "little") + b"a" * (2 * 10**6)
HOSTILE = {
    "endless product": b"\x80\x02}X\x04\x00\x00\x00data"
    b"cnumpy.core.multiarray\n_reconstruct\n)R(K\x01("
    + b"".join(b"I" + b"9" * 4000 + b"\n" for _ in range(8))
    + b"tcnumpy\ndtype\nU\x02u1\x85R\x89U\x00tbs.",
    "more than it has": b"\x80\x02}(c_codecs\nencode\nq\x00"
    + LONG
    + b"q\x01X\x06\x00\x00\x00latin1q\x02"
    + b"h\x00h\x01h\x02\x86R" * 50
    + b"u.",
    "changed function": b"\x80\x02c_codecs\nencode\n}X\x0c\x00\x00\x00__defaults__K\x01\x85sb.",
    "long key": b"\x80\x02}" + LONG + b"K\x01s.",
    "a call": pickle.dumps({b"data": _Evil()}, protocol=2),
    "a call, old": pickle.dumps({b"data": _Evil()}, protocol=0),
    "huge memo": b"\x80\x02}r\xff\xff\xff\x7f.",
    "persistent": b"\x80\x02Pname\n.",
    "extension": b"\x80\x02\x82\x01.",
    "nested key": b"\x80\x02}" + b")" + b"2\x86" * 60 + b"K\x01s.",
    "huge number": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "huge bytes": b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.",
    "set": pickle.dumps({b"data": {1, 2}}, protocol=4),
    "no dictionary": pickle.dumps([1, 2, 3], protocol=2),
    "text": b"hello there",
    "nothing": b"",
    "attribute": b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.",
    "no array": pickle.dumps({b"data": b"abc", b"labels": [1]}, protocol=2),
    "bad labels": pickle.dumps(
        {b"data": np.zeros((1, 3072), np.uint8), b"labels": [77]}, protocol=2
    ),
    "floats": pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [1]}, protocol=2),
    "columns": pickle.dumps(
        {b"data": np.zeros((2, 3072), np.uint8, order="F"), b"labels": [1, 1]}, protocol=2
    ),
    "narrow": pickle.dumps({b"data": np.zeros((1, 3), np.uint8), b"labels": [1]}, protocol=2),
    "too few": pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}, protocol=2),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_pickles_do_nothing(tmp_path: Path, case: str) -> None:
    """Whatever a pickle asks for beyond bytes and lists is refused with the file's name."""
    info, files = small_cifar()
    content = {**python_version(info, files), "data_batch_1": HOSTILE[case]}
    with pytest.raises(DataError, match="data_batch_1"):
        read_source(tar(tmp_path / "cifar.tar", content), info)
    assert not Path("scalednl-was-here").exists()


def test_pickles_of_newer_pythons_are_read_too() -> None:
    """A directory somebody re-saved with a newer protocol gives the same records."""
    info, files = small_cifar()
    assert info.cifar is not None
    for protocol in (0, 1, 2, 3, 4, 5):
        batch = pickle.loads(python_version(info, files)["data_batch_2"])
        saved = {"data": batch[b"data"], "labels": batch[b"labels"]}
        content = pickle.dumps(saved, protocol=protocol)
        if protocol == 5:
            # The newest protocol writes numpy arrays by another function, which is not admitted.
            with pytest.raises(DataError, match="_frombuffer"):
                cifar._from_pickle(content, info, "data_batch_2.bin")
            continue
        repacked = cifar._from_pickle(content, info, "data_batch_2.bin")
        assert hashlib.md5(repacked).hexdigest() == info.cifar.md5["data_batch_2.bin"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("data_batch_1.png", b"\x89PNG\r\n", "not a sound PNG"),
        ("data_batch_1.png", encoded(Image.new("RGB", (10, 10)), "PNG"), "10 x 10"),
        ("train_lables.json", b'["a"]', "not a list of labels"),
        ("train_lables.json", b"[[", "not a list of labels"),
        ("train_lables.json", b"[1, 2]", "has 2 labels"),
        ("train_lables.json", b"[" * 100_000, "not a list of labels"),
    ],
)
def test_bad_atlases_are_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    """A damaged picture or list in the npm package is named."""
    info, files = small_cifar()
    source = tar(tmp_path / "a.tgz", {**npm_version(info, files), name: content})
    with pytest.raises(DataError, match=said):
        read_source(source, info)


def test_a_pack_gives_back_its_files(tmp_path: Path) -> None:
    """The one file that Tiny-ImageNet is kept in holds every byte, and is the same twice."""
    files = tiny_files()
    tiny_imagenet.write_pack(files, tmp_path / "a.zip")
    tiny_imagenet.write_pack(files, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as pack:
        assert {name: pack.read(name) for name in pack.namelist()} == files
