"""The plain values of an experiment, as config.json has them, in files of today and of before."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from scalednl.attentions import declare_attention
from scalednl.errors import CommandError
from scalednl.lab.config.folder import is_folder
from scalednl.lab.config.generated import GENERATED
from scalednl.options import USUAL_POOL

if TYPE_CHECKING:
    from scalednl.lab.config.experiment import Experiment

REQUIRED = ("recipe", "data", "model", "block", "epochs", "batch", "lr", "seed")
"""What every file has; options that came later have defaults"""
MOVED = ("blocks", "stage")
"""Options that older files have inside `block`"""


def file_values(experiment: "Experiment") -> dict[str, Any]:
    """Plain values, for a file, without the options of data sets not in use.

    Options that came when runs had finished are left out at their defaults, so that files,
    digests and the names of run directories stay as they were.
    """
    values = {**asdict(experiment), "folder": experiment.folder.as_dict()}
    for name in _unused(experiment.data):
        del values[name]
    values["milestones"] = list(experiment.milestones)
    if experiment.block.key_pool_size == USUAL_POOL:
        del values["block"]["key_pool_size"]
    if not experiment.dropout:
        del values["dropout"]
    if experiment.precision == "fp32":
        del values["precision"]
    for name in ("code", "at"):
        values[name] = list(getattr(experiment, name))
        if not values[name]:
            del values[name]
    return values


def read_values(values: dict[str, Any], kind: "type[Experiment]") -> "Experiment":
    """Undo `file_values`; unknown or missing names and wrong types are a ValueError."""
    missing = [name for name in REQUIRED if name not in values]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    # Older files hold options of `pairs` for every data set.
    unused = _unused(str(values["data"]))
    used = _moved({name: value for name, value in values.items() if name not in unused})
    _declare(used)
    try:
        given = dotted(used)
        large = [n for n, v in given.items() if isinstance(v, int) and abs(v) >= 2**63]
        if large:
            raise ValueError(f"{large[0]} is too large")
        found = msgspec.convert(used, kind)
    except (CommandError, msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error
    unknown = given.keys() - dotted(asdict(found)).keys()
    if unknown:
        raise ValueError(f"{min(unknown)} is not an option of this version")
    return found


def used_options(experiment: "Experiment") -> dict[str, Any]:
    """All options by their dotted names, without those of data sets not in use."""
    unused = _unused(experiment.data)
    return dotted({name: v for name, v in asdict(experiment).items() if name not in unused})


def _moved(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a file, those of older files in today's places."""
    block = values["block"]
    if not isinstance(block, dict):
        return values
    outside = {name: block[name] for name in MOVED if name in block and name not in values}
    inside = {name: value for name, value in block.items() if name not in outside}
    return {**values, "block": inside, **outside}


def _declare(values: dict[str, Any]) -> None:
    """Make an attention of a user's own readable, without its code, if the file has an entry."""
    block, code = values["block"], values.get("code")
    name = block.get("attention") if isinstance(block, dict) else None
    entries = code if isinstance(code, list) else []
    if any(isinstance(entry, str) and entry.partition("=")[0] == name for entry in entries):
        declare_attention(str(name))


def _unused(data: str) -> list[str]:
    """The fields with options of other data sets."""
    return [name for name in GENERATED if name != data] + ["folder"] * (not is_folder(data))


def dotted(values: dict[str, Any]) -> dict[str, Any]:
    """All options by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": part for inner, part in dotted(value).items()}
        else:
            found[name] = value
    return found
