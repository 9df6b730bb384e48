"""What every integration shares: options by name, and a kept start."""

import pytest
from torch import nn

import scalednl
from scalednl.integrations.framework_block import OPTIONS, FrameworkBlock
from tests.integrations.claims import assert_started


def test_options_are_those_of_a_block() -> None:
    """Each option of NonLocal2d is passed on by its name."""
    assert {"attention", "heads", "norm_init", "device"} <= set(OPTIONS)
    block = FrameworkBlock(8, attention="softmax", heads=2, norm_init=1.0, key_pool="after")
    assert isinstance(block, scalednl.NonLocal2d)
    assert (block.attention, block.heads, block.norm_init) == ("softmax", 2, 1.0)
    assert block.key_pool == "after"


def test_an_unknown_option_is_named() -> None:
    """A misspelt option is repeated with its value and the name that was meant."""
    with pytest.raises(TypeError, match="has no option head=2; did you mean 'heads'"):
        FrameworkBlock(8, head=2)
    with pytest.raises(TypeError, match=r"has no option zzz=1: there are attention, view, heads"):
        FrameworkBlock(8, zzz=1)


def test_init_weights_restores_the_start() -> None:
    """A block that a framework has initialised its own way starts as its options ask again."""
    block = FrameworkBlock(64, init=0.03, norm_init=0.5)
    block.apply(_overwrite)
    block.init_weights()
    assert_started(block, 0.03, 0.5)


def _overwrite(module: nn.Module) -> None:
    for parameter in module.parameters():
        nn.init.ones_(parameter)
