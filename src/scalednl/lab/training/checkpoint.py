"""Complete checkpoints: written aside, flushed, checksummed, renamed; the last two are kept.

checkpoints/00001234/weights.safetensors   the network, as `save_model` writes it
checkpoints/00001234/state.pt              optimizer, position, random state
checkpoints/00001234/SHA256SUMS
"""

import pickle
import re
import shutil
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from scalednl.errors import CommandError, first_line
from scalednl.files import FULL, flush, flush_folder, read_bytes, sha256_of, write_text
from scalednl.models.checkpoint_file import check_claims
from scalednl.models.weights import read_weights, save_model

SCHEMA = 1
KEPT = 2
NAME = re.compile("[0-9]{1,15}")
"""A step"""
# What readers raise for damaged files, and torch for anything but plain values.
UNREADABLE = (
    *(OSError, ValueError, RuntimeError, EOFError, KeyError, MemoryError, CommandError),
    pickle.UnpicklingError,
)
FILES = ("weights.safetensors", "state.pt")
REPLACED = ".replaced.part"
LARGEST_SUMS = 4096
"""Bytes of SHA256SUMS"""


@dataclass(frozen=True)
class Checkpoint:
    """What a run resumes from."""

    path: Path
    """Its folder"""
    weights: dict[str, Tensor]
    state: dict[str, Any]


def save_checkpoint(folder: Path, step: int, model: nn.Module, state: dict[str, Any]) -> None:
    """Write a checkpoint of a step, and then remove all but the last two."""
    target, building = folder / f"{step:08}", folder / f".{step:08}.part"
    replaced = folder / f".{step:08}{REPLACED}"
    try:
        folder.mkdir(exist_ok=True)
        _clear(building)
        building.mkdir()
        save_model(model, building / FILES[0])
        torch.save({"schema": SCHEMA, **state}, building / FILES[1])
        flush(building / FILES[1])
        sums = [f"{sha256_of(building / name)}  {name}\n" for name in FILES]
        write_text(building / "SHA256SUMS", "".join(sums))
        if target.exists():
            # The same step again, such as the end of an epoch: the old one goes when this is there.
            target.rename(replaced)
        building.rename(target)
        _clear(replaced)
        flush_folder(folder)
    except (OSError, RuntimeError) as error:
        # torch's own writer raises a RuntimeError if the disk is full.
        _clear(building)
        raise CommandError(_not_written(folder, error)) from error
    for old in _superseded(_steps(folder), step):
        _clear(folder / old)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest complete checkpoint, or None if there is none.

    A damaged one is skipped with a warning; if all are damaged, that is an error.
    """
    _restore_replaced(folder)
    steps = _steps(folder)
    for name in reversed(steps):
        try:
            return _load(folder / name)
        except UNREADABLE as error:
            warnings.warn(
                f"checkpoint {folder / name} is damaged ({first_line(error)}) and skipped",
                stacklevel=2,
            )
    if steps:
        raise CommandError(
            f"all checkpoints in {folder} are damaged: move {folder.parent} away to start again, "
            "or choose another folder with --out"
        )
    return None


def _restore_replaced(folder: Path) -> None:
    """Give a checkpoint its name again if a kill came before its successor had it."""
    for path in folder.glob(f".*{REPLACED}"):
        target = folder / path.name[1:].removesuffix(REPLACED)
        if not target.exists():
            with suppress(OSError):
                path.rename(target)


def has_checkpoint(folder: Path) -> bool:
    """Whether there is a checkpoint, complete or damaged."""
    return bool(_steps(folder))


def clear_leftovers(folder: Path) -> None:
    """Remove the unfinished files of writers that were killed."""
    for part in folder.glob(".*.part"):
        _clear(part)


def newest_weights(folder: Path) -> Path | None:
    """The weights of the newest checkpoint whose checksums are right."""
    for name in reversed(_steps(folder)):
        if _is_valid(folder / name):
            return folder / name / FILES[0]
    return None


def _load(path: Path) -> Checkpoint:
    _check_sums(path)
    check_claims(path / FILES[1])
    state = torch.load(path / FILES[1], map_location="cpu", weights_only=True)
    schema = state.get("schema") if isinstance(state, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"its schema is {schema}, this version reads {SCHEMA}")
    return Checkpoint(path, read_weights(path / FILES[0])[0], state)


def _check_sums(path: Path) -> None:
    sums = read_bytes(path / "SHA256SUMS", LARGEST_SUMS, path).decode().splitlines()
    right = {line[66:]: line[:64] for line in sums}
    for name in FILES:
        if right.get(name) != sha256_of(path / name):
            raise ValueError(f"the checksum of {name} is wrong")


def _is_valid(path: Path) -> bool:
    try:
        _check_sums(path)
    except (OSError, ValueError, CommandError):
        return False
    return True


def _steps(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if NAME.fullmatch(path.name))


def _superseded(steps: list[str], newest: int) -> list[str]:
    """All but the last two up to the newest; later ones are damaged, or they would be loaded."""
    later = [step for step in steps if int(step) > newest]
    return [*later, *[step for step in steps if int(step) <= newest][:-KEPT]]


def _not_written(folder: Path, error: Exception) -> str:
    full = isinstance(error, RuntimeError) or getattr(error, "errno", 0) in FULL
    why = "its disk is full" if full else first_line(error)
    sentence = f"no checkpoint could be written to {folder}: {why}"
    if _steps(folder):
        sentence += "; the previous one is kept, and the same command resumes from it"
    return sentence


def _clear(path: Path) -> None:
    """Remove a folder, or a file."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
