"""The options of a block's attention compute what the block computes."""

import math
from typing import Any

import pytest
import torch

import scalednl
from scalednl import functional
from tests.support import assert_close, randomise

CASES: list[dict[str, Any]] = [
    {},
    {"attention": "softmax"},
    {"attention": "softmax", "softmax_scale": "channels"},
    {"attention": "softmax", "softmax_scale": 3},
    {"attention": "softmax", "softmax_scale": "learned"},
    {"center": "keys+mean", "view": "direction"},
    {"reference_pixels": 11},
    {"reference_pixels": "running"},
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_functional_attention_with_them_is_the_blocks(options: dict[str, Any]) -> None:
    """y of functional.nonlocal_attention goes through out to the block's branch."""
    block = randomise(scalednl.NonLocal2d(8, heads=2, norm=False, **options)).double()
    x = torch.randn(2, 8, 3, 5, dtype=torch.float64)
    block(x)
    block.eval()
    y = functional.nonlocal_attention(*block.embed(x), **block.attention_options())
    assert_close(x + block.out(y), block(x), 1e-10)


def test_the_temperature_is_the_one_of_now() -> None:
    """1/sqrt(C) by name, a number as it is, and a learned one as a tensor with a gradient."""
    channels = scalednl.NonLocal2d(16, attention="softmax", softmax_scale="channels")
    assert channels.attention_options()["softmax_scale"] == 0.25
    learned = scalednl.NonLocal2d(16, attention="softmax", softmax_scale="learned")
    assert learned.log_softmax_scale is not None
    with torch.no_grad():
        learned.log_softmax_scale.fill_(math.log(5))
    found = learned.attention_options()["softmax_scale"]
    assert_close(found, torch.full((4,), 5.0), 1e-6)
    assert found.requires_grad


def test_the_running_number_counts_in_evaluation_alone() -> None:
    """In training the reference is the map itself."""
    block = scalednl.NonLocal2d(8, reference_pixels="running")
    block(torch.randn(2, 8, 4, 5))
    assert block.attention_options()["reference_pixels"] is None
    assert float(block.eval().attention_options()["reference_pixels"]) == 20
