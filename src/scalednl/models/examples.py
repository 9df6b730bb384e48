"""Inputs for trying a model: its own example, a guess, and variations of other sizes."""

import inspect
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
GUESSES: dict[int, list[tuple[int, ...]]] = {
    1: [(512,), (64,)],
    2: [(224, 224), (64, 64), (32, 32)],
    3: [(8, 112, 112), (16, 224, 224)],
}
"""Sizes to try where no example is given, by the number of spatial axes"""
SMALL = ((96, 64), (160, 128))
"""Heights and widths that most image models accept, small and not square"""


def guesses(model: nn.Module) -> list[Tensor]:
    """Random inputs with the channels of the model's first convolution."""
    kinds = tuple(CONVOLUTIONS.values())
    first = next((m for m in model.modules() if isinstance(m, kinds)), None)
    if first is None:
        raise ValueError(
            f"{type(model).__name__} has no convolution to guess its input from: pass example=..."
        )
    like = first.weight
    spaces = GUESSES[like.dim() - 2]
    return [_random((1, first.in_channels, *space), like) for space in spaces]


def call(model: nn.Module, example: Any) -> Any:
    """The model's output: a tuple is its positional arguments, a dict may be its keyword arguments.

    A dict whose keys do not fit the signature of `forward` is passed as one argument. Tensors are
    copied, because some models change their input.
    """
    example = _map_tensors(example, lambda t: t.detach().clone())
    if isinstance(example, tuple):
        return model(*example)
    if isinstance(example, dict) and _are_keywords(model, example):
        return model(**example)
    return model(example)


def batch_of(example: Any) -> int | None:
    """The first axis of the example's first tensor of three or more axes, where there is one."""
    main = _main(example)
    return None if main is None else main.shape[0]


def space_of(example: Any) -> tuple[int, ...] | None:
    """The axes of that tensor after batch and channels."""
    main = _main(example)
    return None if main is None else tuple(main.shape[2:])


def place_counts(example: Any) -> set[int]:
    """How many places the example's tensors may have: pixels of images, lengths of sequences."""
    counts: set[int] = set()
    for tensor in _top_tensors(example):
        shape = tuple(tensor.shape)
        counts |= {prod(shape[2:]), prod(shape[1:-1])} if len(shape) > 3 else set(shape[1:])
    return counts


def with_first_replaced(example: Any) -> Any:
    """The first sample of the batch replaced by the second; None where there is no batch."""
    sizes = {t.shape[0] for t in _top_tensors(example) if t.dim()}
    if len(sizes) != 1 or max(sizes) < 2:
        return None
    return _map_tensors(example, lambda t: torch.cat([t[1:2], t[1:]]) if t.dim() else t)


def variations(example: Any) -> Iterator[Any]:
    """Examples of other sizes, small ones first; then of the same size with random values."""
    main = _main(example)
    if main is None:
        return
    batch, space = main.shape[0], tuple(main.shape[2:])
    other = 3 if batch == 2 else 2
    for new in [*_other_spaces(space), space]:
        yield _resized(example, (batch, other), (space, new))
    yield _resized(example, (batch, batch), (space, space))


def _main(example: Any) -> Tensor | None:
    tensors = _top_tensors(example)
    return next((t for t in tensors if t.dim() >= 3 and t.is_floating_point()), None)


def _top_tensors(example: Any) -> list[Tensor]:
    values = example if isinstance(example, tuple) else (example,)
    values = tuple(example.values()) if isinstance(example, dict) else values
    return [v for v in values if isinstance(v, Tensor)]


def _other_spaces(space: tuple[int, ...]) -> list[tuple[int, ...]]:
    if len(space) == 1:
        return [(n,) for n in (space[0] // 2, space[0] * 3 // 4, space[0] * 2) if n]
    *time, height, width = space
    if height * width > prod(SMALL[0]):
        sides = [*SMALL, (height // 2, width * 3 // 4)]
    else:
        sides = [(3 * height, width // 2), (2 * height, 3 * width), *SMALL]
    others = [(h, w) for h, w in sides if h and w and h != height and w != width]
    return [(*time, h, w) for h, w in others if h * w != height * width]


def _resized(
    example: Any,
    batches: tuple[int, int],
    spaces: tuple[tuple[int, ...], tuple[int, ...]],
) -> Any:
    """Every tensor of this batch or space with the new one: random numbers, or values repeated."""

    def change(tensor: Tensor) -> Tensor:
        shape = list(tensor.shape)
        axes = len(spaces[0])
        if tuple(shape[-axes:]) == spaces[0] and len(shape) > axes:
            shape[-axes:] = spaces[1]
        if len(shape) > 0 and shape[0] == batches[0]:
            shape[0] = batches[1]
        if tensor.is_floating_point() and tensor.numel():
            return _random(tuple(shape), tensor, tensor)
        for axis, size in enumerate(shape):
            index = torch.arange(size, device=tensor.device) % tensor.shape[axis]
            tensor = tensor.index_select(axis, index)
        return tensor

    return _map_tensors(example, change)


def _random(shape: tuple[int, ...], like: Tensor, values: Tensor | None = None) -> Tensor:
    """Random numbers of the device and dtype of `like`; with the spread and range of `values`."""
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    if values is not None and not values.is_meta:
        known = values.detach().float().cpu()
        spread = known.std(correction=0)
        numbers = (known.mean() + spread * numbers).clamp(known.min(), known.max())
    return numbers.to(like.device, like.dtype)


def _map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(_map_tensors(v, change) for v in value)
    if type(value) is dict:
        return {key: _map_tensors(v, change) for key, v in value.items()}
    return value


def _are_keywords(model: nn.Module, example: dict[Any, Any]) -> bool:
    if not all(isinstance(key, str) for key in example):
        return False
    try:
        inspect.signature(model.forward).bind(**example)
    except TypeError:
        return False
    return True
