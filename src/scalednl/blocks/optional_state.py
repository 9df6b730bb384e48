"""State that only some variants of a block have: a learned temperature, the running pixel count.

All other weights have the same names in every variant, so a state_dict moves between them. A block
without one of these drops the one it is given, and says so where that changes the function; a block
with it keeps its own where none is given.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from scalednl.attentions import ATTENTIONS
from scalednl.blocks.forward import key_space
from scalednl.ops.layout import pixel_count

if TYPE_CHECKING:
    from scalednl.blocks.nonlocal_block import NonLocalBlock

MOMENTUM = 0.1
"""Weight of the newest batch in the running number of pixels, as in batch norm"""


def load_optional(
    block: "NonLocalBlock",
    load: Callable[..., None],
    state_dict: dict[str, Any],
    prefix: str,
    *args: Any,
) -> None:
    """Load a state_dict whose optional entries may be missing or left over."""
    lost = {}
    if ATTENTIONS[block.attention].form == "softmax":
        lost["log_softmax_scale"] = f"softmax_scale={block.softmax_scale!r}, not 'learned'"
    if ATTENTIONS[block.attention].has_pixel_factor:
        lost["running_pixels"] = f"reference_pixels={block.reference_pixels!r}, not 'running'"
    own = {name: getattr(block, name) for name in ("log_softmax_scale", "running_pixels")}
    for name, value in own.items():
        given = state_dict.pop(prefix + name, None) if value is None else None
        if given is not None and name in lost:
            warnings.warn(
                f"{prefix}{name} is dropped: this block has {lost[name]}, so it computes another "
                "function than the one saved",
                stacklevel=4,
            )
    given = state_dict.get(f"{prefix}running_pixels")
    if isinstance(given, Tensor) and not given.is_floating_point():
        # Of older files: in an integer a running mean would be rounded at every step.
        state_dict[f"{prefix}running_pixels"] = given.float()
    load(state_dict, prefix, *args)
    _metadata, _strict, missing_keys, *_ = args
    for name, value in own.items():
        if value is not None and prefix + name in missing_keys and not value.is_meta:
            missing_keys.remove(prefix + name)


def count_keys(
    shape: Sequence[int], kernel: tuple[int, ...], key_mask: Tensor | None
) -> int | Tensor:
    """How many keys maps of this shape have: one number for all images, or one per image."""
    if key_mask is not None:
        return key_mask.flatten(1).sum(1)
    return pixel_count(key_space(tuple(shape[2:]), kernel))


@torch.no_grad()
def note_pixels(running: Tensor, keys: int | Tensor) -> None:
    """Take the number of keys of an image into its running mean; 0 has seen none.

    Images without keys do not count, and a batch of such images changes nothing.
    """
    if isinstance(keys, Tensor):
        seen = keys.sum() / (keys > 0).sum().clamp_min(1)
    else:
        # Filled there: a number made into a tensor here would be copied, and the host would wait.
        seen = torch.full_like(running, keys)
    new = torch.where(running > 0, running + MOMENTUM * (seen - running), seen)
    running.copy_(torch.where(seen > 0, new, running))
