"""What is checked before inserted blocks may stay in a model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

from scalednl.blocks import NonLocalBlock
from scalednl.models.examples import with_first_replaced
from scalednl.models.feature_layout import LayoutError
from scalednl.models.inserted import Attachment
from scalednl.models.probe import Probe, outputs_of, run_quietly, single_tensor, undisturbed

ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.2}
"""Relative differences that another memory layout may cause in a deep network, by dtype"""


def check_batch_axis(model: nn.Module, module: nn.Module, example: Any) -> None:
    """A module's output for one sample does not depend on the samples before it.

    In sequences with the batch second, what looks like a batch is the sequence.
    """
    other = with_first_replaced(example)
    if other is None:
        return
    outputs: list[Tensor] = []

    def keep(_: nn.Module, __: object, output: Any) -> None:
        tensor = single_tensor(output)
        outputs.extend([] if tensor is None or tensor.is_meta else [tensor[1:].clone()])

    with _removed_after([module.register_forward_hook(keep)]):
        run_quietly(model, example)
        run_quietly(model, other)
    half = len(outputs) // 2
    for before, after in zip(outputs[:half], outputs[half:], strict=True):
        if _difference(before, after) > ROUNDING.get(before.dtype, 0.0):
            raise LayoutError(
                "gives features that mix samples: its first axis is not the batch, as blocks need "
                "it"
            )


def check_calls(model: nn.Module, attachment: Attachment, example: Any) -> None:
    """The stack runs exactly once for each call of its module."""
    calls = {attachment.target: 0, attachment.stack: 0}

    def note(module: nn.Module, *_: Any) -> None:
        calls[module] += 1

    with _removed_after([module.register_forward_pre_hook(note) for module in calls]):
        run_quietly(model, example)
    of_module, of_stack = calls.values()
    if not of_stack or of_stack != of_module:
        raise RuntimeError(f"they ran {of_stack} times in {of_module} calls of the module")


def check_output(
    model: nn.Module, attached: Sequence[Attachment], before: Probe, identity: bool
) -> float | None:
    """The output has its shape, and with blocks that start as the identity its values.

    Such blocks must give what they get bit for bit, the model up to rounding: an operation after a
    block may depend on the memory layout. Returns the largest difference relative to the largest
    value, or None if values were not compared.
    """
    changed: list[str] = []

    def watch(attachment: Attachment) -> Any:
        def compare(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if not output.is_meta and not torch.equal(inputs[0], output):
                changed.append(attachment.path)

        return attachment.stack.register_forward_hook(compare)

    with _removed_after([watch(attachment) for attachment in attached]):
        after = run_quietly(model, before.example)
    _check_shapes(before.outputs, after)
    if not identity or any(t.is_meta for t in after):
        return None
    difference = max(map(_difference, before.outputs, after))
    if changed or not difference <= min(ROUNDING.get(t.dtype, 0.0) for t in after):
        raise RuntimeError(_explanation(model, attached, before, difference))
    return difference


def _check_shapes(before: Sequence[Tensor], after: Sequence[Tensor]) -> None:
    shapes = [[tuple(t.shape) for t in run] for run in (before, after)]
    if not shapes[0]:
        raise RuntimeError(
            "the model's output has no floating-point tensor that could be compared: use "
            "check=False, or wrap the model so that it returns tensors"
        )
    if shapes[0] != shapes[1]:
        raise RuntimeError(f"the output's shape changed from {shapes[0]} to {shapes[1]}")


def _difference(before: Tensor, after: Tensor) -> float:
    if torch.equal(before, after) or not before.numel():
        return 0.0
    a, b = before.double(), after.double()
    return float((a - b).abs().max() / a.abs().max())


def _explanation(
    model: nn.Module, attached: Sequence[Attachment], before: Probe, difference: float
) -> str:
    """Why the output changed although the new blocks start as the identity."""
    if any(not t.isfinite().all() for t in before.outputs):
        return (
            "the model's output for the trial input is not finite, so it cannot be compared: pass "
            "an example that it can handle, or check=False"
        )
    for attachment in attached:
        attachment.remove()
    again = run_quietly(model, before.example)
    if max(map(_difference, before.outputs, again)) > 0:
        return (
            "the model gives different outputs for the same input in evaluation mode, even without "
            "new blocks, so they cannot be compared: use check=False"
        )
    return (
        f"the output changed by {difference:.0e} although the new blocks start as the identity: "
        "does the forward pass loop over its own modules()?"
    )


def check_gradients(
    model: nn.Module, attached: Sequence[Attachment], example: Any
) -> tuple[str, ...]:
    """Every new parameter can learn; the paths whose gradient a later layer still holds at 0.

    With the norms' weights at 1, because at 0 only these receive gradient; in evaluation mode, so
    that one image is enough. No `grad` is touched.
    """
    attached = [a for a in attached if any(True for _ in a.stack.parameters())]
    results: dict[str, list[Tensor]] = {attachment.path: [] for attachment in attached}

    def watch(attachment: Attachment) -> Any:
        def keep(_: nn.Module, __: object, output: Tensor) -> None:
            results[attachment.path].append(output)

        return attachment.stack.register_forward_hook(keep)

    handles = [watch(attachment) for attachment in attached]
    with _removed_after(handles), _opened(attached), undisturbed(model), torch.enable_grad():
        outputs = [t for t in outputs_of(model, example) if t.requires_grad]
        held = [a.path for a in attached if _is_held(a, results[a.path], outputs)]
    return tuple(held)


def _is_held(attachment: Attachment, results: list[Tensor], outputs: list[Tensor]) -> bool:
    """Whether the gradient is exactly 0 behind the stack; an error if it cannot learn at all.

    A layer that starts at 0, such as many classifiers and last norms of residual branches, lets
    gradient through as soon as it has moved. The blocks themselves are then tried alone.
    """
    if not all(result.requires_grad for result in results):
        raise RuntimeError(
            f"blocks behind {attachment.path!r} cannot learn: it runs under torch.no_grad()"
        )
    reaching = _gradients(outputs, results)
    if all(gradient is None for gradient in reaching):
        raise RuntimeError(
            f"blocks behind {attachment.path!r} cannot learn: the model's output does not depend "
            "on it, or is detached from it"
        )
    held = not any(map(_moves, reaching))
    layout = attachment.stack.layout
    if not held and not any(_moves(layout.to_maps(g)) for g in reaching if g is not None):
        raise RuntimeError(
            f"blocks behind {attachment.path!r} cannot learn: the model's output depends only on "
            f"its first tokens ({layout.prefix}), which pass by the blocks"
        )
    _check_blocks(attachment, results if held else outputs)
    return held


def _check_blocks(attachment: Attachment, ends: list[Tensor]) -> None:
    named = {
        f"{attachment.weights}.{number}.{name}": (block, name, parameter)
        for number, block in attachment.stack.named_children()
        if isinstance(block, NonLocalBlock)
        for name, parameter in block.named_parameters()
    }
    gradients = _gradients(ends, [parameter for *_, parameter in named.values()])
    for (path, (block, name, _)), gradient in zip(named.items(), gradients, strict=True):
        # Softmax does not see phi's bias: it adds the same to every key.
        if not _moves(gradient) and (name.startswith("norm") or not name.endswith("bias")):
            dead = " (init=0.0 makes a dead block)" if block.init == 0 else ""
            raise RuntimeError(f"{path} receives no gradient{dead}")


def _gradients(ends: list[Tensor], of: list[Tensor]) -> Sequence[Tensor | None]:
    """Those of random weighted sums of `ends`."""
    if not ends or not of:
        return [None] * len(of)
    weights = [torch.randn_like(end) for end in ends]
    return torch.autograd.grad(ends, of, weights, retain_graph=True, allow_unused=True)


def _moves(gradient: Tensor | None) -> bool:
    return gradient is not None and (gradient.is_meta or bool(gradient.any()))


@contextmanager
def _opened(attached: Sequence[Attachment]) -> Iterator[None]:
    """All norms of the new blocks with weight 1; afterwards as before."""
    modules = [module for attachment in attached for module in attachment.stack.modules()]
    weights = [m.weight for m in modules if isinstance(m, _BatchNorm)]
    before = [weight.detach().clone() for weight in weights]
    try:
        with torch.no_grad():
            for weight in weights:
                weight.fill_(1)
        yield
    finally:
        with torch.no_grad():
            for weight, values in zip(weights, before, strict=True):
                weight.copy_(values)


@contextmanager
def _removed_after(handles: Sequence[RemovableHandle]) -> Iterator[None]:
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
