"""What a stack consists of."""

import pytest

from scalednl import BlockConfig, NonLocal1d, NonLocal3d, SinusoidalPosition2d
from scalednl.blocks import NonLocalBlock
from scalednl.models.stack import make_stack, stack_parts


@pytest.mark.parametrize(
    ("blocks", "position", "names"),
    [
        (2, None, ["position", "0", "1"]),
        (2, False, ["0", "1"]),
        (0, True, ["position"]),
        (0, None, []),
        (0, False, []),
    ],
)
def test_position_comes_first_and_only_where_it_is_wanted(
    blocks: int, position: bool | None, names: list[str]
) -> None:
    """None means with blocks only; a stack of nothing is None."""
    stack = make_stack(8, BlockConfig(), blocks, position)
    assert list(stack_parts(8, BlockConfig(), blocks, position)) == names
    assert (stack is None) == (not names)
    if stack is not None and "position" in names:
        assert isinstance(stack[0], SinusoidalPosition2d)


@pytest.mark.parametrize(("dims", "kind"), [(1, NonLocal1d), (3, NonLocal3d)])
def test_blocks_have_the_axes_and_options_asked_for(dims: int, kind: type[NonLocalBlock]) -> None:
    """Every option of the configuration reaches every block."""
    config = BlockConfig(attention="softmax", heads=2, embed_channels=4)
    for block in stack_parts(8, config, 2, position=False, dims=dims).values():
        assert isinstance(block, kind)
        assert (block.channels, block.attention, block.heads) == (8, "softmax", 2)
        assert block.theta.out_channels == 4
