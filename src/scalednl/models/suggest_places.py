"""Places of a network where blocks could go, for those who have not named one."""

from math import prod

from torch import Tensor, nn

from scalednl.models.feature_layout import LayoutError, find_layout
from scalednl.models.probe import Probe, probe_twice

FEWEST_PIXELS = 4
"""Smaller maps have nothing to attend to"""
MOST = 5


def suggested_places(model: nn.Module, example: Tensor) -> str:
    """The end of a sentence: the last module of every size, such as the stages of a ResNet."""
    first, second = probe_twice(model, example)
    found: dict[tuple[int, ...], tuple[int, str]] = {}
    for path, module in model.named_modules():
        shape = _features(module, first, second) if path else None
        if shape is not None:
            time = first.calls[module][-1].time
            found[shape] = max(found.get(shape, (0, "")), (time, path))
    if not found:
        return "; no module of it gives features of several pixels for these images"
    named = [f"{path} ({_words(shape)})" for shape, (_, path) in found.items()]
    return f", such as --at {' or '.join(named[:MOST])}"


def _features(module: nn.Module, first: Probe, second: Probe) -> tuple[int, ...] | None:
    """Channels and axes of space of what a module with parts gives, where blocks could go."""
    if module not in first.calls or not any(True for _ in module.children()):
        return None
    try:
        layout = find_layout(module, first, second)
    except LayoutError:
        return None
    shape = first.calls[module][-1].shape or ()
    space = layout.space(shape)
    return (layout.channels(shape), *space) if prod(space) >= FEWEST_PIXELS else None


def _words(shape: tuple[int, ...]) -> str:
    channels, *space = shape
    return f"{channels} channels, {' x '.join(map(str, space))}"
