"""What the page's explorer and its maps are made of: records of attention, put side by side."""

import base64
from pathlib import Path
from typing import Any

BYTES = 3_000_000
"""Of text that the explorer may add to the page"""
PICTURES = 8


def explorer_data(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs of one data set with the images that all of them have; softmax left, scaled right."""
    usable = [r for r in records if r["blocks"] and r["explorer"]["images"]]
    by_data: dict[tuple[str | None, str], list[dict[str, Any]]] = {}
    for record in usable:
        # The same pictures, not only the same name: `pairs` has many sizes.
        picture = record["explorer"]["images"][0]["png"]
        by_data.setdefault((record["data"], picture), []).append(record)
    # The data set on which most kinds of attention can be compared, the first of those.
    chosen = max(by_data.values(), key=lambda group: len(_kinds(group)), default=[])
    kept = _that_fit(chosen)
    indices = _common_images(kept)
    if not indices:
        return {"images": [], "runs": [], "panels": [], "left_out": len(usable)}
    first = _images(kept[0])
    return {
        "images": [
            {name: first[i][name] for name in ("label", "height", "width", "png")} for i in indices
        ],
        "runs": [_run(record, indices) for record in kept],
        "panels": _panels(kept),
        "left_out": len(usable) - len(kept),
    }


def _kinds(group: list[dict[str, Any]]) -> set[str]:
    return {record["blocks"][0]["attention"] for record in group}


def _size(record: dict[str, Any]) -> int:
    return sum(
        len(block["theta"]) + len(block["phi"])
        for image in record["explorer"]["images"]
        for block in image["blocks"]
    )


def _that_fit(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One of each kind of attention first, then the others while there is room."""
    seen: set[str] = set()
    firsts: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for record in group:
        kind = record["blocks"][0]["attention"]
        (others if kind in seen else firsts).append(record)
        seen.add(kind)
    kept, room = [], BYTES
    for record in firsts + others:
        if _size(record) <= room:
            kept.append(record)
            room -= _size(record)
    return kept


def _images(record: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {image["index"]: image for image in record["explorer"]["images"]}


def _common_images(kept: list[dict[str, Any]]) -> list[int]:
    if not kept:
        return []
    first = _images(kept[0])
    others = [_images(record) for record in kept[1:]]
    return [
        index
        for index, image in first.items()
        if all(index in other and other[index]["png"] == image["png"] for other in others)
    ]


def _run(record: dict[str, Any], indices: list[int]) -> dict[str, Any]:
    images = _images(record)
    names = ("attention", "heads", "query_size", "key_size")
    return {
        "name": record["run"],
        "blocks": [{name: block[name] for name in names} for block in record["blocks"]],
        "images": [
            {"predicted": images[i]["predicted"], "blocks": images[i]["blocks"]} for i in indices
        ],
    }


def _panels(kept: list[dict[str, Any]]) -> list[list[int]]:
    """Which runs each picture offers: one picture a kind of attention, softmax first."""
    kinds: dict[str, list[int]] = {}
    for number, record in enumerate(kept):
        kinds.setdefault(record["blocks"][0]["attention"], []).append(number)
    return [kinds[kind] for kind in sorted(kinds, key=_last)]


def _last(attention: str) -> bool:
    """Sorts softmax before the others."""
    return attention != "softmax"


def map_pictures(records: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The first map of one run of each data set and attention, in each set of colours."""
    found: dict[tuple[Any, ...], dict[str, str]] = {}
    for record in records:
        for item in record["maps"]:
            block = record["blocks"][item["block"]]
            kind = record["data"], block["attention"], item["colours"]
            url = _picture(record["folder"], item["file"])
            if kind not in found and url and len(found) < PICTURES:
                words = f"{record['run']}, {block['attention']}, {item['colours']} colours"
                found[kind] = {"url": url, "words": words}
    return [found[kind] for kind in sorted(found, key=lambda kind: (str(kind[0]), _last(kind[1])))]


def _picture(folder: Path, name: str) -> str:
    """A PNG as part of the page; nothing if it is not there, not one, or too large."""
    path = folder / Path(name).name
    try:
        data = path.read_bytes() if path.stat().st_size < 600_000 else b""
    except OSError:
        return ""
    if not data.startswith(b"\x89PNG"):
        return ""
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")
