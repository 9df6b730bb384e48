"""The names of the networks in the authors' release, and those of ours."""

import re
from collections.abc import Mapping

from torch import Tensor

TOP = {"conv1": "stem", "bn": "norm", "bn1": "norm", "fc": "classifier"}
SHORTCUT = re.compile(r"^(downsample|shortcut|convShortcut)(\.0)?\.")
STACK = re.compile(r"^(?:layer|block)\d+\.(?:nonlocal|layer\.\d+)\.head\.(\d+)\.(.*)$")
RESIDUAL = re.compile(
    r"^(?:layer|block)(\d+)\.(?:layer\.)?(\d+)\.((?:bn|conv|downsample|shortcut).*)$"
)


def released_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state of the release under the names of `create_model`'s networks.

    The residual blocks of a stage are counted, not numbered: in the wide networks the stack has a
    number of its own between them. Keys that are not recognised stay as they are.
    """
    numbers: dict[str, list[int]] = {}
    for key in state:
        if found := RESIDUAL.match(key):
            stage = numbers.setdefault(found[1], [])
            if int(found[2]) not in stage:
                stage.append(int(found[2]))
    return {_renamed(key, numbers): value for key, value in state.items()}


def _renamed(key: str, numbers: Mapping[str, list[int]]) -> str:
    if found := STACK.match(key):
        return f"stack.{found[1]}.{found[2]}"
    if found := RESIDUAL.match(key):
        block = sorted(numbers[found[1]]).index(int(found[2]))
        return f"stages.{int(found[1]) - 1}.{block}.{SHORTCUT.sub('shortcut.', found[3])}"
    top, dot, rest = key.partition(".")
    return f"{TOP.get(top, top)}{dot}{rest}"
