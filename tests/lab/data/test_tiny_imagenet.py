"""Tiny-ImageNet is read in its official layout; each fault is one sentence."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scalednl.lab.data.catalogue import TINY_IMAGENET
from scalednl.lab.data.data_set import Decoded
from scalednl.lab.data.errors import DataError
from tests.lab.data.builders import encoded, random_images, tiny_files, unpacked, zipped


def _decoded(source: Path) -> Decoded:
    return TINY_IMAGENET.decode(TINY_IMAGENET.read_source(source), source, lambda _: None)


@pytest.mark.parametrize("form", ["zip", "folder"])
def test_tiny_imagenet_reads_its_layout(tmp_path: Path, form: str) -> None:
    """Labels follow wnids.txt, test images the annotations, and greyscale becomes RGB."""
    files = tiny_files(classes=3)
    extra = {**files, "test/images/test_0.JPEG": b"never read", "train/n00000000/boxes.txt": b""}
    source = tmp_path / "tiny"
    source = unpacked(source, extra) if form == "folder" else zipped(source, extra)
    found = _decoded(source)
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
    """With one class in wnids.txt, images and annotations of the others are ignored."""
    files = {**tiny_files(classes=3), "wnids.txt": b"n00000001\n"}
    source = zipped(tmp_path / "tiny.zip", files)
    found = _decoded(source)
    assert found.class_names == ("thing 1",)
    assert (len(found.splits["train"]), len(found.splits["test"])) == (3, 2)


def _without(files: dict[str, bytes], prefix: str) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if not name.startswith(prefix)}


def _claiming(jpeg: bytes) -> bytes:
    """A JPEG that claims to be 65000 pixels high and wide."""
    start = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:start] + (65000).to_bytes(2, "big") * 2 + jpeg[start + 4 :]


BAD_TINY: dict[str, tuple[Callable[[dict[str, bytes]], dict[str, bytes]], str]] = {
    "missing class folder": (
        lambda f: _without(f, "train/n00000001"),
        "no images in train/n000000",
    ),
    "annotation of no file": (lambda f: _without(f, "val/images/val_1"), "names val_1.JPEG"),
    "no annotations": (lambda f: _without(f, "val/val_ann"), "has no val/val_annotations.txt"),
    "no classes": (lambda f: {**f, "wnids.txt": b""}, "lists no class"),
    "no wnids": (lambda f: _without(f, "wnids"), "contains no wnids.txt"),
    "class twice": (lambda f: {**f, "wnids.txt": b"n00000000 n00000000"}, "one of them twice"),
    "not text": (lambda f: {**f, "wnids.txt": b"\xff\xfe\x00"}, "is not text"),
    "odd line": (lambda f: {**f, "val/val_annotations.txt": b"val_0.JPEG"}, "line 1 of"),
    "corrupt JPEG": (
        lambda f: {**f, "val/images/val_0.JPEG": f["val/images/val_0.JPEG"][:200]},
        "val/images/val_0.JPEG is not a valid JPEG",
    ),
    "no JPEG": (lambda f: {**f, "val/images/val_0.JPEG": b"GIF89a"}, "not a valid JPEG"),
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
    "huge image": (lambda f: {**f, "val/images/val_0.JPEG": bytes(2**19)}, "at most 262,144"),
}


@pytest.mark.parametrize("case", BAD_TINY)
def test_a_bad_tiny_imagenet_is_named(tmp_path: Path, case: str) -> None:
    """Each fault is one sentence with the file."""
    change, said = BAD_TINY[case]
    source = zipped(tmp_path / "tiny.zip", change(tiny_files()))
    with pytest.raises(DataError, match=said) as caught:
        _decoded(source)
    assert str(source) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_pack_contains_its_files(tmp_path: Path) -> None:
    """The zip that Tiny-ImageNet is stored in has every byte, and is the same twice."""
    files = tiny_files()
    contents = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        TINY_IMAGENET.write(files, tmp_path / name)
        assert TINY_IMAGENET.read(tmp_path / name) == files
        contents.append((tmp_path / name / "tiny-imagenet.zip").read_bytes())
    assert contents[0] == contents[1]


def test_a_zip_with_wrong_sizes_is_refused(tmp_path: Path) -> None:
    """A member that unpacks to more than its header states costs no more than it states."""
    path = tmp_path / "wrong.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr("tiny/wnids.txt", bytes(2**20))
    size = (2**20).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (100).to_bytes(4, "little")))
    with pytest.raises(DataError, match=r"wrong\.zip"):
        TINY_IMAGENET.read_source(path)
