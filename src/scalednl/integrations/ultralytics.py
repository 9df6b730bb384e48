"""The block as a layer of an Ultralytics model YAML: `[-1, 1, ScaledNonLocal2d, [ch, f]]`."""

from collections.abc import Mapping
from typing import Any

from scalednl.integrations.framework_block import FrameworkBlock
from scalednl.integrations.requirement import require
from scalednl.options import check_positive

_tasks = require("ultralytics.nn.tasks", used_by=__name__, install="ultralytics")

_ARGUMENTS = (
    "ScaledNonLocal2d takes [ch, f], or a number of channels as in [64], and then a mapping of "
    "options as in [ch, f, {heads: 8}]"
)


class ScaledNonLocal2d(FrameworkBlock):
    """A `scalednl.NonLocal2d` whose arguments are those of a line in a model YAML.

    - `[ch, f]`: when Ultralytics reads a line, it replaces `ch` by the channels of all layers
      before it and `f` by where its input comes from, so this is right at every width;
    - `[64]`: that many channels, whatever the width of the network;
    - `[ch, f, {heads: 8, norm_init: 1}]`: options of `scalednl.NonLocal2d` after either.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        sizes, named = arguments, {}
        if arguments and isinstance(arguments[-1], Mapping):
            sizes, named = arguments[:-1], dict(arguments[-1])
        super().__init__(_channels(sizes, arguments), **{**named, **options})


def _channels(sizes: tuple[Any, ...], arguments: tuple[Any, ...]) -> int:
    """How many channels a line means; raise where it names none."""
    if len(sizes) == 1 and not isinstance(sizes[0], (str, list)):
        return check_positive("channels", sizes[0])
    if len(sizes) != 2 or not isinstance(sizes[0], list):
        raise ValueError(f"{_ARGUMENTS}: got {list(arguments)!r}")
    channels, source = sizes
    if not isinstance(source, int):
        raise ValueError(f"ScaledNonLocal2d takes the output of one layer, but got from={source!r}")
    return channels[source]


# Where Ultralytics looks for the modules that a YAML names.
_tasks.ScaledNonLocal2d = ScaledNonLocal2d  # type: ignore[attr-defined]
