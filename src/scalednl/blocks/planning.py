"""The order of a block for the shapes of its inputs."""

from collections.abc import Sequence

from scalednl.blocks.checks import check_shape
from scalednl.blocks.forward import key_space
from scalednl.ops.costs import BlockState
from scalednl.ops.layout import pixel_count
from scalednl.ops.planner import Choice, Plan, choose, make_plan
from scalednl.options import Order

Shape = Sequence[int]


def check_planned(name: str, shape: Shape, channels: int, dims: int) -> None:
    """Raise unless `shape` is that of an input of the block `name`, in plain numbers."""
    sizes = tuple(shape)
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError(f"plan takes the shape of an input, such as x.shape, but got {sizes}")
    check_shape(name, sizes, channels, dims)


def choice_of(
    state: BlockState, order: Order | Choice, shape: Shape, key_shape: Shape | None
) -> Choice:
    """The choice for an input of this shape, and for other keys of `key_shape`."""
    keys = None if key_shape is None else _keys(state, key_shape)
    return choose(state, order, pixel_count(shape[2:]), keys)


def plan_of(
    state: BlockState, order: Order | Choice, shape: Shape, key_shape: Shape | None
) -> Plan:
    """The plan for the same."""
    return make_plan(
        state,
        order,
        batch=shape[0],
        pixels=pixel_count(shape[2:]),
        keys=_keys(state, shape if key_shape is None else key_shape),
    )


def _keys(state: BlockState, shape: Shape) -> int:
    return pixel_count(key_space(tuple(shape[2:]), state.key_pool))
