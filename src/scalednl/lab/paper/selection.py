"""Part of a table: the cells that have some values, as `KEY=VALUE[,VALUE]`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from scalednl.errors import UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.paper.grids import Artefact, Cell
from scalednl.lab.paper.scales import Scale
from scalednl.networks import network_shape
from scalednl.options import default_init, suggestion

Values = Mapping[str, tuple[str, ...]]
"""What a cell has, by key; where a miniature stands for the paper's value, both"""


def by_prefix(name: str, known: Iterable[str]) -> str | None:
    """The name that is meant: itself, or the only one that begins so; None if there is none.

    Raises a UsageError where several begin so.
    """
    names = list(dict.fromkeys(known))
    if name in names:
        return name
    found = [one for one in names if name and one.startswith(name)]
    if len(found) > 1:
        raise UsageError(f"{name!r} could be {', '.join(found)}: write more of the name")
    return found[0] if found else None


def select(chosen: Sequence[Artefact], scale: Scale, only: Sequence[str]) -> list[Artefact]:
    """The parts of tables whose cells have all these values at a scale; no empty tables.

    Several values of a key are alternatives. A value that no cell has is a UsageError.
    """
    placed = [(cell, cell_values(cell, e)) for one in chosen for cell, e in one.trainings(scale)]
    if not only or not placed:
        return list(chosen)
    where = f"{', '.join(one.name for one in chosen)} at the scale {scale.name}"
    wanted = _wanted(only, [values for _, values in placed], where)
    kept = {id(cell) for cell, values in placed if _has_all(values, wanted)}
    part = " ".join(f"{key}={','.join(values)}" for key, values in wanted.items())
    if not kept:
        raise UsageError(f"no cell of {where} has all of {part}: leave one of them out")
    cells = [tuple(cell for cell in one.cells if id(cell) in kept) for one in chosen]
    parts = zip(chosen, cells, strict=True)
    return [replace(one, cells=own, part=part) for one, own in parts if own]


def cell_values(cell: Cell, experiment: Experiment) -> Values:
    """What a cell can be chosen by: its place in the table, data, network, options of blocks."""
    setting = cell.setting
    position = experiment.position
    found: dict[str, tuple[Any, ...]] = {
        "data": (experiment.data, setting.data),
        "network": (experiment.model, setting.network),
        "attention": (setting.attention,),
        "row": (cell.row,),
        "column": (cell.column,),
        "position": (experiment.blocks > 0 if position is None else position,),
        "heads": (0,),
    }
    if setting.attention != "plain":
        channels = network_shape(experiment.model).widths[experiment.stage - 1]
        block = {**asdict(experiment.block), **dict(setting.options)}
        block |= {"attention": setting.attention, "heads": setting.heads}
        block["embed_channels"] = block["embed_channels"] or channels
        if block["init"] is None:
            block["init"] = default_init(setting.attention)
        found |= {key: (value,) for key, value in block.items()}
    return {key: tuple(dict.fromkeys(map(_text, values))) for key, values in found.items()}


def _text(value: object) -> str:
    """A value as it is compared: numbers by what they are, words without regard to case."""
    try:
        return f"{float(str(value)):g}"
    except ValueError:
        return str(value).lower()


def _has_all(values: Values, wanted: Values) -> bool:
    return all(not set(values.get(key, ())).isdisjoint(some) for key, some in wanted.items())


def _wanted(only: Sequence[str], cells: Sequence[Values], where: str) -> Values:
    """The values asked for, by key; each exists in some cell."""
    there: dict[str, list[str]] = {}
    for values in cells:
        for own, some in values.items():
            there[own] = list(dict.fromkeys([*there.get(own, []), *some]))
    wanted: dict[str, tuple[str, ...]] = {}
    for text in only:
        name, _, listed = text.partition("=")
        key = by_prefix(name.replace("-", "_"), there)
        if key is None:
            varied = ", ".join(one for one, some in there.items() if len(some) > 1)
            raise UsageError(f"--only knows no {name!r}: cells of {where} differ in {varied}")
        wanted[key] = wanted.get(key, ()) + _known(key, listed, there[key], where)
    return wanted


def _known(key: str, listed: str, there: Sequence[str], where: str) -> tuple[str, ...]:
    # The name of a column may contain a comma itself.
    texts = [listed] if _text(listed) in there else listed.split(",")
    for text in texts:
        if _text(text) not in there:
            hint = suggestion(text, there)
            raise UsageError(
                f"no cell of {where} has {key}={text}{hint}{' ' if hint else '; '}"
                f"{key} is one of {', '.join(there)}"
            )
    return tuple(map(_text, texts))
