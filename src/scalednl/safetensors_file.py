"""Writing the safetensors format: a length, a JSON header, then the bytes of every tensor.

`safetensors.torch.save_file` needs NumPy, which the base install leaves out, and reports a full
disk as an error of its own.
"""

import ctypes
import json
from pathlib import Path

import torch
from torch import Tensor

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


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Write tensors of any layout and device to a file that `safetensors` reads."""
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
