"""What several tests need: relative errors, layouts, and a block said in the reference's words."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from scalednl.blocks import NonLocalBlock
from scalednl.lab.cli import main
from scalednl.ops import reference
from scalednl.ops.planner import Choice

LAYOUTS = ("nchw", "channels_last")
Block = TypeVar("Block", bound=NonLocalBlock)


def assert_close(value: Tensor, truth: Tensor, tolerance: float, name: str = "value") -> None:
    """Assert |value - truth| <= tolerance |truth| in the Euclidean norm, and equal shapes.

    The floor is for gradients that are zero but for rounding, such as a bias's before batch norm.
    """
    assert value.shape == truth.shape, f"{name}: shape {value.shape} is not {truth.shape}"
    assert torch.isfinite(value).all(), f"{name} is not finite"
    size = truth.double().norm()
    error = (value.double() - truth.double()).norm()
    assert error <= tolerance * size + 1e-12, f"{name}: relative error {error / size:.2e}"


def assert_close_all(
    values: tuple[Tensor, ...], truths: tuple[Tensor, ...], tolerance: float
) -> None:
    """`assert_close` for the output and every gradient."""
    assert len(values) == len(truths)
    for index, (value, truth) in enumerate(zip(values, truths, strict=True)):
        assert_close(value, truth, tolerance, f"tensor {index}")


def laid_out(x: Tensor, layout: str) -> Tensor:
    """x in the given memory layout, as a leaf that wants a gradient."""
    assert layout in LAYOUTS
    if layout == "channels_last":
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    return x.detach().requires_grad_()


def force(block: Block, choice: Choice) -> Block:
    """Make a block take this choice whatever its planner would say."""
    block.order = choice
    return block


def reference_block(
    block: NonLocalBlock,
    x: Tensor,
    *,
    mask: Tensor | None = None,
    keys: Tensor | None = None,
    key_mask: Tensor | None = None,
) -> Tensor:
    """What `block(x, ...)` must be, by the literal equations: every map formed, nothing folded."""
    theta, phi, g = _embeddings(block, x, x if keys is None else keys)
    key_mask = mask if keys is None else key_mask
    y = reference.nonlocal_attention(
        theta.flatten(2),
        phi.flatten(2),
        g.flatten(2),
        heads=block.heads,
        attention=block.attention,
        view=block.view,
        scale=block.scale,
        softmax_scale=_temperature(block),
        center=block.center,
        reference_pixels=_reference_pixels(block),
        key_mask=None if key_mask is None else key_mask.flatten(1),
    )
    u = _project(block.out, y)
    flat_mask = None if mask is None else mask.flatten(1)
    norm = block.norm
    if isinstance(norm, _BatchNorm):
        gamma = torch.ones_like(u[0, :, 0]) if norm.weight is None else norm.weight
        beta = torch.zeros_like(gamma) if norm.bias is None else norm.bias
        if norm.training or norm.running_mean is None:
            u = reference.batch_norm(u, gamma, beta, norm.eps, flat_mask)
        else:
            assert norm.running_var is not None
            deviation = (norm.running_var + norm.eps).sqrt()[:, None]
            u = gamma[:, None] * (u - norm.running_mean[:, None]) / deviation + beta[:, None]
    z = x + u.view_as(x)
    return z if mask is None else torch.where(mask[:, None], z, x)


Module = TypeVar("Module", bound=nn.Module)


def randomise(module: Module) -> Module:
    """Give every parameter and running statistic a value that would show if it were lost."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    for name, buffer in module.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_()
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
    return module


def run_scalednl(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "scalednl", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def called_scalednl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> "subprocess.CompletedProcess[str]":
    """The same in this process, for speed: a new one takes seconds to import torch."""
    monkeypatch.setattr(sys, "argv", ["scalednl", *arguments])
    capsys.readouterr()
    threads = torch.get_num_threads()
    try:
        main()
        code: object = 0
    except SystemExit as left:
        code = left.code
    finally:
        torch.set_num_threads(threads)
    said = capsys.readouterr()
    return subprocess.CompletedProcess(sys.argv, int(str(code or 0)), said.out, said.err)


def call_scalednl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str]:
    """The command line in this process: its exit code, and all that it printed."""
    run = called_scalednl(monkeypatch, capsys, *arguments)
    return run.returncode, run.stderr + run.stdout


@contextmanager
def tiny_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of a given size, where this user may mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def with_gradients(
    function: nn.Module | None,
    block: NonLocalBlock,
    x: Tensor,
    grad: Tensor,
    *,
    keys: Tensor | None = None,
    **masks: Tensor,
) -> tuple[Tensor, ...]:
    """Output and gradients for x, other keys and every parameter; None is the reference."""
    if function is None:
        z = reference_block(block, x, keys=keys, **masks)
    else:
        z = function(x, keys=keys, **masks) if masks or keys is not None else function(x)
    inputs = [x, *([] if keys is None else [keys]), *block.parameters()]
    return (z.detach(), *torch.autograd.grad(z, inputs, grad))


def _embeddings(block: NonLocalBlock, x: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    keys = _pooled(block, keys) if block.key_pool == "before" else keys
    theta, phi, g = _project(block.theta, x), _project(block.phi, keys), _project(block.g, keys)
    if block.key_pool == "after":
        phi, g = _pooled(block, phi), _pooled(block, g)
    return theta, phi, g


def _reference_pixels(block: NonLocalBlock) -> float | None:
    running = block.running_pixels
    if running is None:
        return block.reference_pixels  # type: ignore[return-value]
    return None if block.training or not running else float(running)


def _project(conv: nn.Module, x: Tensor) -> Tensor:
    weight, bias = conv.weight, conv.bias
    assert isinstance(weight, Tensor)
    y = torch.einsum("ec,bc...->be...", weight.flatten(1), x)
    return y if bias is None else y + bias.view(-1, *[1] * (x.dim() - 2))  # type: ignore[operator]


def _pooled(block: NonLocalBlock, x: Tensor) -> Tensor:
    size = block.key_pool_size
    sizes = size if isinstance(size, tuple) else (1, size, size)[-block.dims :]
    for axis, length in enumerate(sizes, start=2):
        x = x.unfold(axis, length, length).amax(-1)
    return x


def _temperature(block: NonLocalBlock) -> float | Tensor | None:
    if block.log_softmax_scale is not None:
        return block.log_softmax_scale.exp()
    named = {"embed": None, "channels": block.channels**-0.5}
    return named.get(block.softmax_scale, block.softmax_scale)  # type: ignore[arg-type]
