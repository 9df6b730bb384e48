"""The safetensors format: a length, a JSON header, then the bytes of every tensor.

Its reader compares the header with the size of the file, but takes headers of 100 MB.
`safetensors.torch.save_file` needs NumPy, which the base install leaves out, and reports a full
disk as an error of its own.
"""

import ctypes
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

LARGEST_HEADER = 4 << 20
"""Bytes; that of a network of a thousand layers has a tenth of it"""

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


@contextmanager
def open_tensors(path: Path, device: str | torch.device = "cpu") -> Iterator[Any]:
    """The open file; what is no safetensors file, or has a header too large, is a ValueError."""
    try:
        with path.open("rb") as file:
            length, first = int.from_bytes(file.read(8), "little"), file.read(1)
        if first not in (b"", b"{"):
            raise ValueError(f"{path} is another kind of file, not a complete safetensors file")
        if LARGEST_HEADER < length <= path.stat().st_size:
            raise ValueError(f"{path} has a header of {length:,} bytes (limit {LARGEST_HEADER:,})")
        with safe_open(path, framework="pt", device=str(device)) as tensors:
            yield tensors
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a complete safetensors file ({error}): was its download cut off?"
        ) from None


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Write tensors of any layout and device to a file that `safetensors` reads."""
    for name, tensor in tensors.items():
        if tensor.dtype not in NAMES:
            raise ValueError(f"{name} is {tensor.dtype}, which cannot be saved")
    # Widest elements first: every tensor then begins at a multiple of its element size.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name in names:
        begin, end = end, end + tensors[name].numel() * tensors[name].element_size()
        header[name] = {
            "dtype": NAMES[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in names:
            dense = tensors[name].detach().cpu().contiguous()
            file.write(ctypes.string_at(dense.data_ptr(), dense.numel() * dense.element_size()))
