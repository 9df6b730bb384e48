"""A stack of blocks behind a module, where no loop over the module's children can meet it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from scalednl.config import STACK
from scalednl.models.feature_layout import FeatureLayout
from scalednl.models.probe import replace_single

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


class InsertedStack(nn.Sequential):
    """Blocks one after the other, on features of any layout.

    Behind a plain Sequential it is one more child. Behind any other module a forward hook runs it,
    and then nothing else may: a call from elsewhere, such as a loop over all children, is an error.
    """

    layout = FeatureLayout(dims=2, channel_axis=1)
    behind: str | None = None
    """The path of the module whose hook runs this stack; None for a child of a Sequential"""

    def forward(self, x: Tensor, *, from_hook: bool = False) -> Tensor:
        """The features after all blocks, in the layout of x."""
        if self.behind is not None and not from_hook:
            raise RuntimeError(
                f"the blocks behind {self.behind!r} run by themselves whenever {self.behind!r} is "
                "called, but were called as one of its children"
            )
        maps = self.layout.to_maps(x)
        for part in self:
            maps = part(maps)
        return self.layout.from_maps(maps, x)


@dataclass
class Attachment:
    """A stack in its place, and how to take it out again."""

    path: str
    """Where the target is in the model"""
    target: nn.Module
    stack: InsertedStack
    where: str
    """The stack's path below the target"""
    handle: RemovableHandle | None

    @property
    def weights(self) -> str:
        """The prefix of the names of the stack's weights."""
        return f"{self.path}.{self.where}"

    def remove(self) -> None:
        """Leave the target as it was; again is no error."""
        if self.handle is not None:
            self.handle.remove()
        holder, _, name = self.where.rpartition(".")
        self.target.get_submodule(holder)._modules.pop(name, None)


def attach(target: nn.Module, stack: InsertedStack, where: str, path: str) -> Attachment:
    """Register `stack` at `where` below the target, and have it run after each of its calls."""
    holder, _, name = where.rpartition(".")
    hooked = not _runs_new_children(target) or where != STACK
    stack.behind = path if hooked else None
    target.get_submodule(holder).add_module(name, stack)
    handle = target.register_forward_hook(partial(_run, where)) if hooked else None
    return Attachment(path, target, stack, where, handle)


def places(target: nn.Module, path: str) -> Iterator[str]:
    """Where the stack may be registered, best first, relative to the target.

    The target itself, unless it is a container that handles its children in a way of its own. Then
    a module below it: the last child, or the nearest one to it that is no container.
    """
    plain = _runs_new_children(target) or not isinstance(target, CONTAINERS)
    if plain and not hasattr(target, STACK):
        yield STACK
    name = f"{STACK}after_{path.rpartition('.')[2]}"
    below = [(p, m) for p, m in target.named_modules() if p and STACK not in p][::-1]
    for inner, module in sorted(below, key=lambda item: item[0].count(".")):
        if not isinstance(module, CONTAINERS) and not hasattr(module, name):
            yield f"{inner}.{name}"


def has_stack(target: nn.Module) -> bool:
    """Whether a stack runs behind the target already."""
    hooks = target._forward_hooks.values()
    hooked = any(isinstance(hook, partial) and hook.func is _run for hook in hooks)
    return hooked or isinstance(target._modules.get(STACK), InsertedStack)


def _runs_new_children(target: nn.Module) -> bool:
    return type(target).forward is nn.Sequential.forward


def _run(where: str, module: nn.Module, _inputs: object, output: Any) -> Any:
    """The forward hook: it finds the stack by its path, so that copies find their own."""
    stack = module.get_submodule(where)
    return replace_single(output, lambda x: stack(x, from_hook=True))
