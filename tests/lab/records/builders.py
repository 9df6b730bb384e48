"""A record of attention as a file has it."""

import base64
from typing import Any

import numpy as np

from scalednl.lab.records.attention import PNG


def encoded(values: Any) -> str:
    """Numbers as base64."""
    return base64.b64encode(np.asarray(values).tobytes()).decode()


SUMMARY = {"mean": 0.5, "sd": None, "n": 1, "low": None, "high": None}


VECTORS = {
    "bits": 8,
    "theta": encoded(np.array([[127, 0], [0, -127]], "<i1")),
    "theta_scale": encoded(np.array([1 / 127, 2 / 127], "<f4")),
    "phi": encoded(np.array([[127, 127]], "<i1")),
    "phi_scale": encoded(np.array([3 / 127], "<f4")),
    "width": 2,
    "factor": [0.5],
    "row_error": 0.01,
    "query_size": None,
    "key_size": None,
}


BLOCK = {
    "name": "stack.0",
    "attention": "scaled",
    "view": "base",
    "heads": 1,
    "channels": 4,
    "embed_channels": 2,
    "query_size": [1, 2],
    "key_size": [1, 1],
    "scores": {"key_share": SUMMARY},
    "head_scores": {"key_share": [0.5]},
    "untrained": {"key_share": SUMMARY},
}


MAP = {"file": "map.png", "image": 0, "block": 0, "head": 0, "colours": "hot", "low": 0, "high": 1}


IMAGE = {
    "index": 3,
    "label": "cat",
    "predicted": None,
    "height": 2,
    "width": 4,
    "png": base64.b64encode(PNG).decode(),
    "blocks": [VECTORS],
    "title": None,
}


PHOTO = {
    "file": "photo.png",
    "height": 300,
    "width": 400,
    "seen_height": 32,
    "seen_width": 43,
    "notes": ["reduced"],
    "classes": [{"name": "cat", "probability": 0.75}],
}


RECORD: dict[str, Any] = {
    **dict.fromkeys(("recipe", "seed", "data", "position")),
    "source": "run",
    "model": "preresnet8",
    "origin": {},
    "images_scored": 1,
    "untrained": {"seed": 0, "start": "initialised"},
    "ablations": {"images": 10, "error_pct": {"unchanged": 1.5}},
    "blocks": [BLOCK],
    "maps": [MAP],
    "explorer": {"images": [IMAGE], "left_out": 0},
    "photos": [PHOTO],
}
