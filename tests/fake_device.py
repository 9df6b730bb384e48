"""Blocks on a device that does not exist: shapes, dtypes and devices are known, numbers are not.

Under fake tensors everything that needs a number on the host raises: `.item()`, `bool(tensor)`,
`nonzero`, shapes that depend on data. On a GPU these would wait for the device. A build of torch
without CUDA can neither index nor differentiate fake tensors on "cuda". So "meta" stands for a
device that is not the host, and "cpu" for one whose fused kernels exist.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Module = TypeVar("Module", bound=nn.Module)
VIEWS = {
    *("alias", "as_strided", "detach", "expand", "permute", "select", "slice", "squeeze", "t"),
    *("transpose", "unsqueeze", "view", "_unsafe_view", "empty", "empty_like", "empty_strided"),
    *("new_empty", "new_empty_strided", "split", "split_with_sizes", "unbind", "device"),
    *("_reshape_alias", "lift_fresh", "unfold"),
}
"""Operators that launch nothing: they give another view of memory, or memory alone"""
COPIES = ("clone", "_to_copy", "copy_", "contiguous")


class Call(NamedTuple):
    """One operator that the dispatcher ran."""

    name: str
    overload: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def copies(self, numel: int) -> bool:
        """Whether it only copies or casts a tensor of at least `numel` numbers."""
        return self.name in COPIES and max(t.numel() for t in self.outputs) >= numel


class Trace(TorchDispatchMode):
    """Notes every operator that is run inside, views left out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run one operator, and note it."""
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        if name not in VIEWS:
            inputs = _tensors((args, kwargs))
            self.calls.append(Call(name, func._overloadname, inputs, _tensors(result)))
        return result

    def dtypes(self) -> set[torch.dtype]:
        """The dtypes of all tensors that were read or written."""
        return {t.dtype for call in self.calls for t in (*call.inputs, *call.outputs)}


def _tensors(tree: Any) -> tuple[Tensor, ...]:
    return tuple(leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


class FakeDevice:
    """Makes fake tensors and modules on a device, and traces what is done with them."""

    def __init__(self, device: str) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=False)
        self.device = torch.device(device)

    def tensor(self, *shape: int, dtype: torch.dtype = torch.float32, layout: str = "nchw") -> Any:
        """A tensor without numbers."""
        memory = torch.channels_last if layout == "channels_last" else torch.contiguous_format
        # Inside `traced` this would be fake already, and torch 2.8 cannot wrap that again.
        with unset_fake_temporarily():
            value = torch.empty(shape, dtype=dtype, device="meta", memory_format=memory)
            return self._fake(value)

    def module(self, module: Module) -> Module:
        """The module with its parameters and buffers replaced, in place."""
        for part in module.modules():
            for name, value in list(part._parameters.items()):
                if value is not None:
                    fake = nn.Parameter(self._fake(value), requires_grad=value.requires_grad)
                    part._parameters[name] = fake
            for name, buffer in list(part._buffers.items()):
                if buffer is not None:
                    part._buffers[name] = self._fake(buffer)
        return module

    @contextmanager
    def traced(self) -> Iterator[Trace]:
        """Inside, every operator is noted and none may look at a number."""
        with self.mode, Trace() as trace:
            yield trace

    def _fake(self, value: Tensor) -> FakeTensor:
        return FakeTensor(self.mode, value.detach().to("meta"), self.device)
