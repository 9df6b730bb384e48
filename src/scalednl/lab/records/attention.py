"""What `scalednl attention` leaves: scores, pictures, and enough to compute any row. No torch.

attention/attention.json   all numbers, and for some images theta and phi in few bits
attention/*.png, *.svg     figures; bare maps, one pixel an entry
"""

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scalednl.errors import CommandError
from scalednl.files import write_json

SCHEMA = 2
"""1 had other scores under some of the same names, and errors on the scored images alone"""
FILE = "attention.json"
PNG = b"\x89PNG\r\n\x1a\n"
Floats = npt.NDArray[np.float32]
Names = type[Any] | tuple[type[Any], ...]

OR_NONE = type(None)
NUMBER: Names = (int, float)

TOP: Mapping[str, Names] = {
    "source": str,
    "recipe": (str, OR_NONE),
    "seed": (int, OR_NONE),
    "data": (str, OR_NONE),
    "model": str,
    "position": (bool, OR_NONE),
    "origin": dict,
    "images_scored": int,
    "blocks": list,
    "untrained": dict,
    "ablations": (dict, OR_NONE),
    "maps": list,
    "explorer": dict,
}
BLOCK: Mapping[str, Names] = {
    **dict.fromkeys(("name", "attention", "view"), str),
    **dict.fromkeys(("heads", "channels", "embed_channels"), int),
    **dict.fromkeys(("query_size", "key_size"), list),
    **dict.fromkeys(("scores", "head_scores", "untrained"), dict),
}
UNTRAINED: Mapping[str, Names] = {"seed": int, "start": str}
ABLATIONS: Mapping[str, Names] = {"images": int, "error_pct": dict}
MAP: Mapping[str, Names] = {
    **dict.fromkeys(("file", "colours"), str),
    **dict.fromkeys(("image", "block", "head"), int),
    **dict.fromkeys(("low", "high"), NUMBER),
}
IMAGE: Mapping[str, Names] = {
    **dict.fromkeys(("index", "height", "width"), int),
    **dict.fromkeys(("label", "predicted"), (str, OR_NONE)),
    "png": str,
    "blocks": list,
}
VECTORS: Mapping[str, Names] = {
    **dict.fromkeys(("theta", "theta_scale", "phi", "phi_scale"), str),
    "width": int,
    "bits": int,
    "factor": list,
    "row_error": NUMBER,
}


def write_attention(folder: Path, record: dict[str, Any]) -> Path:
    """Write a record beside its pictures; it is checked as a reader would."""
    _check({"schema": SCHEMA, **record})
    path = folder / FILE
    write_json(path, {"schema": SCHEMA, **record})
    return path


def read_attention(folder: Path) -> dict[str, Any] | None:
    """The record in a folder, checked throughout; None if there is none."""
    path = folder / FILE
    try:
        if not path.is_file():
            return None
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except (OSError, ValueError, RecursionError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    found = record.get("schema") if isinstance(record, dict) else None
    if found != SCHEMA:
        raise CommandError(f"{path} has schema {found}, and this version reads {SCHEMA}")
    try:
        _check(record)
    except (ValueError, OverflowError) as error:
        raise CommandError(f"{path} is damaged: {error}") from error
    return record


def is_current(run: Path, images: int) -> bool:
    """Whether the attention of a run is recorded on enough images, and since it was trained."""
    record, weights = run / "attention" / FILE, run / "weights.safetensors"
    try:
        found = read_attention(record.parent)
        newer = not weights.exists() or record.stat().st_mtime >= weights.stat().st_mtime
        return found is not None and found["images_scored"] >= images and newer
    except (CommandError, OSError):
        return False


def decode_vectors(vectors: Mapping[str, Any], name: str) -> Floats:
    """`theta` or `phi` of a block in the explorer: (heads, pixels, width)."""
    heads, width = len(vectors["factor"]), vectors["width"]
    kind = f"<i{vectors['bits'] // 8}"
    numbers = np.frombuffer(_bytes(vectors[name], name), kind).astype(np.float32)
    scales = np.frombuffer(_bytes(vectors[f"{name}_scale"], name), "<f4")
    return numbers.reshape(heads, -1, width) * scales.reshape(heads, -1, 1)


def decode_rows(
    vectors: Mapping[str, Any], head: int, queries: Sequence[int], *, softmax: bool
) -> Floats:
    """A_i = f theta_i . phi_j, or its softmax over j, as a browser computes it."""
    theta, phi = decode_vectors(vectors, "theta"), decode_vectors(vectors, "phi")
    rows = np.float32(vectors["factor"][head]) * theta[head, list(queries)] @ phi[head].T
    if not softmax:
        return rows
    powers = np.exp(rows - rows.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _check(record: Any) -> None:
    """Raise ValueError at the first thing that a reader could stumble over."""
    _fields(record, TOP, "the record")
    if not record["blocks"]:
        raise ValueError("it has no blocks")
    for number, block in enumerate(record["blocks"]):
        _check_block(block, f"block {number}")
    _fields(record["untrained"], UNTRAINED, "untrained")
    if record["ablations"] is not None:
        _fields(record["ablations"], ABLATIONS, "ablations")
        for name, error in record["ablations"]["error_pct"].items():
            _number(error, f"error of ablation {name}")
    for number, picture in enumerate(record["maps"]):
        _check_map(picture, record["blocks"], f"map {number}")
    images = record["explorer"].get("images")
    if not isinstance(images, list):
        raise ValueError("explorer has no list of images")
    for number, image in enumerate(images):
        _check_image(image, record["blocks"], f"explorer image {number}")


def _check_block(block: Any, where: str) -> None:
    _fields(block, BLOCK, where)
    for name in ("query_size", "key_size"):
        if not block[name] or not all(_positive(size) for size in block[name]):
            raise ValueError(f"{where} has {name} {block[name]}")
    if not _positive(block["heads"]):
        raise ValueError(f"{where} has {block['heads']} heads")
    for kind in ("scores", "untrained"):
        for name, summary in block[kind].items():
            _check_summary(summary, name, where)
    if block["untrained"].keys() != block["scores"].keys():
        raise ValueError(f"{where}: scores and untrained have different names")
    for name, values in block["head_scores"].items():
        if not isinstance(values, list) or len(values) != block["heads"]:
            raise ValueError(f"{where}: {name} has not one number a head")
        for value in values:
            _number(value, f"{where}: {name}")


def _check_summary(summary: Any, name: str, where: str) -> None:
    parts = ("mean", "sd", "n", "low", "high")
    if not isinstance(summary, dict) or not set(parts) <= set(summary):
        raise ValueError(f"{where}: {name} is not a summary")
    for part in parts:
        if summary[part] is not None or part in ("mean", "n"):
            _number(summary[part], f"{where}: {part} of {name}")


def _check_map(picture: Any, blocks: Sequence[Any], where: str) -> None:
    _fields(picture, MAP, where)
    name = picture["file"]
    # A page puts the file in: a name must not lead anywhere else.
    if Path(name).name != name or not name.endswith(".png") or "\\" in name:
        raise ValueError(f"{where} has the file name {name!r}")
    if not 0 <= picture["block"] < len(blocks):
        raise ValueError(f"{where} is of block {picture['block']}, which is not there")
    if not 0 <= picture["head"] < blocks[picture["block"]]["heads"]:
        raise ValueError(f"{where} is of head {picture['head']}, which is not there")
    for part in ("low", "high"):
        _number(picture[part], f"{where}: {part}")


def _check_image(image: Any, blocks: Sequence[Any], where: str) -> None:
    _fields(image, IMAGE, where)
    if not _bytes(image["png"], f"{where}: png").startswith(PNG):
        raise ValueError(f"{where}: png is no PNG picture")
    if not (_positive(image["height"]) and _positive(image["width"])):
        raise ValueError(f"{where} is {image['height']} x {image['width']}")
    if len(image["blocks"]) != len(blocks):
        raise ValueError(f"{where} has {len(image['blocks'])} blocks, not {len(blocks)}")
    for number, (vectors, block) in enumerate(zip(image["blocks"], blocks, strict=True)):
        _check_vectors(vectors, block, f"{where}, block {number}")


def _check_vectors(vectors: Any, block: Mapping[str, Any], where: str) -> None:
    _fields(vectors, VECTORS, where)
    if len(vectors["factor"]) != block["heads"] or not _positive(vectors["width"]):
        raise ValueError(
            f"{where} has {len(vectors['factor'])} factors of width {vectors['width']}"
        )
    if vectors["bits"] not in (8, 16):
        raise ValueError(f"{where} has numbers of {vectors['bits']} bits")
    for factor in (*vectors["factor"], vectors["row_error"]):
        _number(factor, f"{where}: factor")
    for name, size in (("theta", "query_size"), ("phi", "key_size")):
        count = block["heads"] * math.prod(block[size])
        scales = _bytes(vectors[f"{name}_scale"], f"{where}: {name}_scale")
        numbers = _bytes(vectors[name], f"{where}: {name}")
        wanted = count * vectors["width"] * vectors["bits"] // 8
        if len(numbers) != wanted or len(scales) != 4 * count:
            raise ValueError(f"{where}: {name} has {len(numbers)} bytes, its scales {len(scales)}")
        if not np.isfinite(np.frombuffer(scales, "<f4")).all():
            raise ValueError(f"{where}: {name}_scale has numbers that are not finite")


def _fields(value: Any, fields: Mapping[str, Names], where: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {type(value).__name__}")
    for name, kinds in fields.items():
        if name not in value:
            raise ValueError(f"{where} has no {name}")
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        if not isinstance(value[name], allowed) or (
            isinstance(value[name], bool) and bool not in allowed
        ):
            raise ValueError(f"{name} of {where} is {type(value[name]).__name__}")


def _number(value: Any, where: str) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{where} is {value!r}, not a number")


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _bytes(text: Any, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ValueError(f"{where} is not base64") from None


def _refuse(constant: str) -> float:
    raise ValueError(f"it holds {constant}")
