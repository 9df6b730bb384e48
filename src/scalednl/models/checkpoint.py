"""Checkpoints whose non-local blocks are foreign, loaded into networks that have ours."""

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from scalednl.models.assemble import Block
from scalednl.models.checkpoint_file import (
    CheckpointSource,
    canonical,
    read_checkpoint,
    shared_prefix,
)
from scalednl.models.foreign import PARTS, ConversionError, Names, adapt, names_of_state
from scalednl.models.released_names import released_names
from scalednl.models.residual import ResidualNetwork
from scalednl.models.stack import BLOCKS

POSITION_BUFFERS = ("pos_vec",)
"""Last names of buffers that hold a fixed position encoding: ours is computed"""
TRACKED = "num_batches_tracked"
"""Missing from the files of old versions of torch, which counted no batches"""


def load_foreign_state_dict(
    model: nn.Module, checkpoint: CheckpointSource, rename: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Load a checkpoint whose non-local blocks are foreign into a model that has ours.

    Everything is loaded or nothing: what does not match is listed in a ValueError, and the model
    stays as it was. Returns the paths of the blocks whose weights were translated.

    The names and shapes are checked, the presence of biases, norms and key pooling too. A file of
    weights does not say more: make the blocks with the heads, attention, softmax scale and size of
    key pool of the checkpoint's implementation.

    Args:
        model: a network with a block of ours wherever the checkpoint has a foreign one. For a
            network of `create_model`, the names of the authors' release are known.
        checkpoint: a file of torch.save or safetensors, or what is in it: a state_dict, also
            inside {"state_dict": ...} or {"model": ...}, with or without `module.` in its names.
        rename: prefixes of the checkpoint -> prefixes of the model, where they differ. The longest
            prefix counts.
    """
    state = _renamed(read_checkpoint(checkpoint), rename or {})
    targets = model.state_dict()
    prefix = shared_prefix(targets)
    names = {canonical(key, prefix): key for key in targets}
    if isinstance(model, ResidualNetwork) and not set(state) & set(names):
        state = released_names(state)
    state, translated, problems = _translate(model, state, prefix)
    wanted = {name: targets[key] for name, key in names.items()}
    problems += _mismatches(state, wanted)
    if any(target.is_meta for target in targets.values()):
        problems.append("the model is on the meta device: call model.to_empty(device=...) first")
    if problems:
        raise ValueError(
            f"the checkpoint does not fit {type(model).__name__}, and nothing was loaded:\n- "
            + "\n- ".join(problems)
        )
    _load(model, {names[name]: value for name, value in state.items() if name in names})
    return tuple(translated)


def _renamed(state: Mapping[str, Tensor], rename: Mapping[str, str]) -> dict[str, Tensor]:
    """The state with the longest prefix of the table replaced in every key."""
    table = {_prefix(old, state): _prefix(new, ()) for old, new in rename.items()}
    used = {prefix: False for prefix in table if prefix}
    renamed: dict[str, Tensor] = {}
    for key, value in state.items():
        fits = [old for old in table if not old or key == old or key.startswith(f"{old}.")]
        new = key
        if fits:
            longest = max(fits, key=len)
            used[longest] = True
            rest = key.removeprefix(longest).removeprefix(".")
            new = ".".join(part for part in (table[longest], rest) if part)
        if new in renamed:
            raise ValueError(f"rename={dict(rename)} gives two tensors the name {new}")
        renamed[new] = value
    unused = [prefix for prefix, was_used in used.items() if not was_used]
    if unused:
        raise ValueError(
            f"rename names {', '.join(unused)}, but no key of the checkpoint begins so: it has "
            f"{_some(state)}"
        )
    return renamed


def _prefix(prefix: str, keys: Iterable[str]) -> str:
    """A prefix without the `module.` that the keys no longer have."""
    prefix = prefix.strip(".")
    if any(key.startswith(f"{prefix}.") for key in keys):
        return prefix
    return f"{prefix}.".removeprefix("module.").strip(".")


def _translate(
    model: nn.Module, state: Mapping[str, Tensor], prefix: str
) -> tuple[dict[str, Tensor], list[str], list[str]]:
    """The state with our names, the blocks that were translated, and what does not fit them."""
    new, translated, problems = dict(state), [], []
    for path, block in model.named_modules(remove_duplicate=False):
        if not isinstance(block, BLOCKS):
            continue
        start = canonical(f"{path}." if path else "", prefix)
        inside = {key.removeprefix(start): v for key, v in state.items() if key.startswith(start)}
        names = names_of_state(inside)
        if names is None:
            continue
        try:
            weights = _translated(block, names, inside)
        except ConversionError as problem:
            problems.append(f"the block at {path or 'the top'} {problem}")
            continue
        for key in inside:
            del new[start + key]
        new.update({start + name: value for name, value in weights.items()})
        translated.append(path)
    return new, translated, problems


def _translated(block: Block, names: Names, inside: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a block of ours; foreign tensors that belong to no part keep their names."""
    ours = {names.ours(key) or key: value for key, value in inside.items()}
    gamma = ours.pop("gamma", None)
    wanted = {None: block.key_pool, True: "after", False: None}[names.pools_by_name]
    if block.key_pool != wanted:
        raise ConversionError(
            f"has key_pool={block.key_pool!r}, but the one in the checkpoint "
            f"({names.parts['phi']}) requires key_pool={wanted!r}"
        )
    if (names.norm is None) != (block.norm is None):
        has = "has no norm" if names.norm is None else f"has one ({names.norm})"
        raise ConversionError(
            f"has norm={block.norm is not None}, but the one in the checkpoint {has}"
        )
    weights = adapt(ours, gamma, names.norm is not None)
    for part in PARTS:
        _match_bias(weights, f"{part}.bias", block.get_submodule(part).bias)
    return weights


def _match_bias(weights: dict[str, Tensor], name: str, own: object) -> None:
    """A bias that only ours has is 0; one that only theirs has must be 0."""
    if isinstance(own, Tensor) and name not in weights:
        weights[name] = own.new_zeros(own.shape)
    elif own is None and name in weights and weights.pop(name).any():
        raise ConversionError(
            f"has no {name}, but the one in the checkpoint has: make it with bias=True"
        )


def _mismatches(state: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> list[str]:
    """One sentence for each way in which the names and shapes differ."""
    missing = [n for n in wanted if n not in state and not n.endswith(f".{TRACKED}")]
    ignored = POSITION_BUFFERS
    further = [n for n in state if n not in wanted and n.rpartition(".")[2] not in ignored]
    shapes = [
        f"{name} is {_kind(state[name])}, not {_kind(tensor)}"
        for name, tensor in wanted.items()
        if name in state and _kind(state[name]) != _kind(tensor)
    ]
    problems = []
    if missing:
        problems.append(f"not in the checkpoint: {_some(missing)}")
    if further:
        problems.append(f"not in the model: {_some(further)} (use rename={{...}} for other names)")
    if shapes:
        problems.append(f"other shapes: {_some(shapes)}")
    return problems


def _kind(tensor: Tensor) -> str:
    floating = tensor.is_floating_point()
    return f"{tuple(tensor.shape)}" + ("" if floating else f" of {tensor.dtype}")


def _load(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Load weights that were checked; should torch fail all the same, put the old ones back."""
    before = {key: value.clone() for key, value in model.state_dict().items()}
    try:
        model.load_state_dict(state, strict=False)
    except Exception:
        model.load_state_dict(before)
        raise


def _some(names: Iterable[str], count: int = 5) -> str:
    names = list(names)
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(names[:count]) + more
