"""Forward passes that record what every module gives, without disturbing the model."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from scalednl.models.examples import batch_of, call, guesses, variations

CHANNELS_SECOND = (_ConvNd, _BatchNorm, _InstanceNorm, nn.GroupNorm)
CHANNELS_LAST = (nn.Linear, nn.LayerNorm, nn.Embedding)
"""These exact classes: subclasses of LayerNorm such as LayerNorm2d have other axes"""


@dataclass(frozen=True)
class Call:
    """What one call of a module gave."""

    time: int
    """When it ended, counted over all modules"""
    output: str
    """The output in words"""
    shape: tuple[int, ...] | None
    """The shape of the output, where it is one floating-point tensor"""
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    tensor: Tensor | None = None
    """The output itself, where its shape is the same with the channels second and last"""


@dataclass(frozen=True)
class Evidence:
    """A tensor that a convolution, a norm or a linear layer took or gave: its channel axis."""

    time: int
    shape: tuple[int, ...]
    axis: int
    tensor: Tensor | None
    """As in `Call`"""


@dataclass
class Probe:
    """One forward pass of a model."""

    example: Any
    batch: int | None
    calls: dict[nn.Module, list[Call]] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list)
    constant_tokens: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    """(length, channels) -> tokens equal in all images when that shape first occurred"""
    outputs: list[Tensor] = field(default_factory=list)
    time: int = 0
    seconds: float = 0.0
    """How long the pass took"""

    def note(self, module: nn.Module, inputs: tuple[Any, ...], output: object) -> None:
        """Record a call; a forward hook."""
        self.time += 1
        tensor = single_tensor(output)
        made = Call(self.time, words(output), None)
        if tensor is not None:
            made = Call(
                self.time,
                made.output,
                tuple(tensor.shape),
                tensor.dtype,
                tensor.device,
                _if_symmetric(tensor),
            )
            self._note_tokens(tensor)
        self.calls.setdefault(module, []).append(made)
        axis = 1 if isinstance(module, CHANNELS_SECOND) else -1
        if axis == 1 or type(module) in CHANNELS_LAST:
            for value in (*inputs, output):
                if isinstance(value, Tensor) and value.dim() >= 3 and value.is_floating_point():
                    shape = tuple(value.shape)
                    self.evidence.append(Evidence(self.time, shape, axis, _if_symmetric(value)))

    def note_inputs(self, _: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Record tokens before a module mixes them; a forward pre-hook."""
        for value in (*inputs, *named.values()):
            if isinstance(value, Tensor):
                self._note_tokens(value)

    def _note_tokens(self, tensor: Tensor) -> None:
        shape = tuple(tensor.shape[1:])
        if tensor.dim() != 3 or shape in self.constant_tokens or tensor.is_meta:
            return
        same = (tensor == tensor[:1]).all(2).all(0)
        self.constant_tokens[shape] = same.nonzero().flatten().tolist() if len(tensor) > 1 else []


def _if_symmetric(tensor: Tensor) -> Tensor | None:
    return tensor if tensor.dim() >= 3 and tensor.shape[1] == tensor.shape[-1] else None


def probe_twice(model: nn.Module, example: Any) -> tuple[Probe, Probe]:
    """What every module gives for `example` (or a guess), and for another size where one works.

    The second one has random values, a small size, and another batch size wherever the model
    accepts them; the size of the first where the model accepts no other.
    """
    first = _probe_first(model, example)
    for other in variations(first.example):
        try:
            return first, probe(model, other)
        except Exception:  # any model, any error: the next variation may work
            continue
    return first, probe(model, first.example)


def _probe_first(model: nn.Module, example: Any) -> Probe:
    if example is not None:
        if batch_of(example) == 0:
            raise ValueError("the example has a batch of 0: pass at least one sample")
        try:
            return probe(model, example)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise ValueError(f"the model does not run on the example ({problem})") from error
    tried, problem = [], ""
    for images in guesses(model):
        try:
            return probe(model, images)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            tried.append(str(tuple(images.shape)))
    raise ValueError(
        f"{type(model).__name__} does not run on random inputs of shape {' or '.join(tried)} "
        f"({problem}): pass example=..."
    )


def probe(model: nn.Module, example: Any) -> Probe:
    """One undisturbed forward pass; modules that it does not call are missing from `calls`."""
    result = Probe(example, batch_of(example))
    handles = []
    try:
        for module in _plain_modules(model):
            handles.append(module.register_forward_pre_hook(result.note_inputs, with_kwargs=True))
            handles.append(module.register_forward_hook(result.note))
        start = perf_counter()
        result.outputs = run_quietly(model, example)
        result.seconds = perf_counter() - start
    finally:
        for handle in handles:
            handle.remove()
    return result


def run_quietly(model: nn.Module, example: Any) -> list[Tensor]:
    """Every floating-point tensor in the output, in evaluation mode and without gradients."""
    with undisturbed(model), torch.no_grad():
        return outputs_of(model, example)


def outputs_of(model: nn.Module, example: Any) -> list[Tensor]:
    """Every floating-point tensor in the model's output for `example`."""
    return [t for t in _tensors(call(model, example)) if t.is_floating_point()]


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, no autocast, fixed random numbers; modes, buffers and seeds are restored."""
    devices = {p.device for p in model.parameters()}
    cards = [d for d in devices if d.type == "cuda"]
    with ExitStack() as stack:
        stack.enter_context(evaluating(model))
        stack.enter_context(_unchanged_buffers(model))
        stack.enter_context(torch.random.fork_rng(devices=cards))
        for kind in {"cpu", *(d.type for d in devices)}:
            if torch.amp.is_autocast_available(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        torch.manual_seed(0)
        yield


def _plain_modules(model: nn.Module) -> list[nn.Module]:
    """All modules but scripted ones, which take no hooks."""
    return [m for m in model.modules() if not isinstance(m, torch.jit.ScriptModule)]


@contextmanager
def _unchanged_buffers(model: nn.Module) -> Iterator[None]:
    """Some models count or remember in buffers, also in evaluation mode."""
    before = [
        (module, name, buffer, buffer.detach().clone())
        for module in _plain_modules(model)
        for name, buffer in module._buffers.items()
        if buffer is not None and not is_lazy(buffer)
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, buffer, values in before:
                module._buffers[name] = buffer.copy_(values)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for every module, and afterwards the mode that each one had."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def single_tensor(output: object) -> Tensor | None:
    """The output where it is one floating-point tensor, or a tuple or list of just one."""
    if type(output) in (tuple, list) and len(output) == 1:  # type: ignore[arg-type]
        output = output[0]  # type: ignore[index]
    return output if isinstance(output, Tensor) and output.is_floating_point() else None


def replace_single(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The output with its one tensor changed."""
    tensor = single_tensor(output)
    if tensor is None:
        raise RuntimeError(f"blocks need one floating-point tensor, but got {words(output)}")
    changed = change(tensor)
    return changed if isinstance(output, Tensor) else type(output)([changed])


def words(output: object) -> str:
    """What an output is, down to the shapes in it."""
    if isinstance(output, Tensor):
        kind = "tensor" if output.is_floating_point() else f"{output.dtype} tensor"
        return f"a {kind} of shape {tuple(output.shape)}"
    if isinstance(output, dict):
        parts = [f"{key!r}: {words(value)}" for key, value in output.items()]
    elif isinstance(output, (tuple, list)):
        parts = [words(value) for value in output]
    elif dataclasses.is_dataclass(output) and not isinstance(output, type):
        parts = [f"{f.name}: {words(getattr(output, f.name))}" for f in dataclasses.fields(output)]
    else:
        return "None" if output is None else _with_article(type(output).__name__)
    listed = ", ".join(parts[:4]) + (", ..." if len(parts) > 4 else "")
    return f"{_with_article(type(output).__name__)} of {listed or 'nothing'}"


def _with_article(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOUaeiou" else f"a {name}"


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _tensors(v)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [t for f in dataclasses.fields(value) for t in _tensors(getattr(value, f.name))]
    return []
