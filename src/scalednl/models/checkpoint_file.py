"""The tensors in what training scripts save: files, wrappers around the weights, prefixes."""

import argparse
import mmap
import pickle
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from scalednl.safetensors_file import open_tensors

CheckpointSource = str | Path | Mapping[str, Any]
WRAPPERS = (
    *("state_dict", "model_state_dict", "model_state", "model", "net", "network", "weights"),
    *("params", "module", "state_dict_ema", "model_ema", "ema_state_dict", "ema", "params_ema"),
)
"""Keys under which scripts keep the weights; averaged ones are taken where there are no others"""
COMPILED = "_orig_mod"
RESERVES = b"\nbytearray\n"
"""In a pickle, the one call that weights_only allows that fills all the memory it asks for"""


def read_checkpoint(checkpoint: CheckpointSource) -> dict[str, Tensor]:
    """The tensors of a checkpoint by name, without what wrappers of modules put before them."""
    what = "the checkpoint"
    if isinstance(checkpoint, (str, Path)):
        what, checkpoint = str(checkpoint), _read_file(Path(checkpoint))
    try:
        state = _unwrap(checkpoint, what)
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply, or contains itself") from None
    prefix = shared_prefix(state)
    return {canonical(key, prefix): value for key, value in state.items()}


def shared_prefix(keys: Iterable[str]) -> str:
    """What DataParallel and torch.compile put before all keys: "module." and "_orig_mod."."""
    keys = list(keys)
    prefix = ""
    while keys:
        longer = [f"{prefix}{name}." for name in ("module", COMPILED)]
        prefixes = [p for p in longer if all(key.startswith(p) for key in keys)]
        if not prefixes:
            break
        prefix = prefixes[0]
    return prefix


def canonical(key: str, prefix: str) -> str:
    """A key without the shared prefix, and without torch.compile's name in any place."""
    parts = key.removeprefix(prefix).split(".")
    return ".".join(part for part in parts if part != COMPILED)


def _read_file(path: Path) -> Any:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        if path.suffix == ".safetensors":
            with open_tensors(path) as file:
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        check_claims(path)
        with torch.serialization.safe_globals(_harmless_classes()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} is not a checkpoint that torch.load(weights_only=True) reads: it is another "
            "kind of file, or it contains objects besides tensors; if you trust it, load it "
            f"yourself and pass its state_dict ({_reason(error)})"
        ) from None
    except Exception as error:  # a reader given any file raises anything
        raise ValueError(f"{path} cannot be read as a checkpoint ({_reason(error)})") from error


def check_claims(path: Path) -> None:
    """Raise if a file of torch.save would take more memory than it has bytes: torch does not."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            parts, size = archive.infolist(), path.stat().st_size
            total = sum(part.file_size for part in parts)
            if total > size:
                raise ValueError(f"it has {size:,} bytes, and its parts claim to have {total:,}")
            pickles = [part for part in parts if part.filename.endswith(".pkl")]
            found = any(RESERVES in archive.read(part) for part in pickles)
    else:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            found = text.find(RESERVES) >= 0
    if found:
        raise ValueError("it contains a bytearray, which may reserve any amount of memory")


def _harmless_classes() -> list[Any]:
    """What scripts save beside weights and what runs no code: arguments and NumPy's numbers."""
    found: list[Any] = [argparse.Namespace]
    try:
        import numpy as np
    except ImportError:
        return found
    scalar = np.float64(0).__reduce__()[0]
    found += [(scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")]
    return [*found, np.dtype, *(type(np.dtype(code)) for code in "efdilqB?")]


def _reason(error: Exception) -> str:
    """The first line of what torch reports, without its advice before and after."""
    lines = str(error).rpartition("WeightsUnpickler error: ")[2].strip().splitlines()
    return lines[0].partition(". ")[0] if lines else type(error).__name__


def _unwrap(checkpoint: Any, what: str) -> dict[str, Tensor]:
    """The state_dict in a checkpoint, however it is wrapped."""
    if isinstance(checkpoint, nn.Module):
        checkpoint = checkpoint.state_dict()
    if not isinstance(checkpoint, Mapping):
        raise ValueError(f"{what} is a {type(checkpoint).__name__}, not a state_dict")
    inner = {key: v for key, v in checkpoint.items() if isinstance(v, (Mapping, nn.Module))}
    known = next((key for key in WRAPPERS if key in inner and _has_tensors(inner[key])), None)
    if known is not None:
        return _unwrap(inner[known], what)
    tensors = {str(key): v for key, v in checkpoint.items() if isinstance(v, Tensor)}
    if not tensors:
        raise ValueError(
            f"{what} contains no tensors under a name that is known ({', '.join(WRAPPERS[:4])}, "
            f"...): it has {', '.join(map(str, list(checkpoint)[:8])) or 'nothing'}; pass its "
            "state_dict"
        )
    return tensors


def _has_tensors(value: Any) -> bool:
    if isinstance(value, nn.Module):
        return True
    values = value.values() if isinstance(value, Mapping) else ()
    return any(isinstance(v, Tensor) or _has_tensors(v) for v in values)
