"""Bytes and multiply-adds of modules whose counts are known by hand."""

import pytest
import torch
from torch import nn

from scalednl.lab.counting import bytes_kept, multiply_adds


def test_a_linear_layer_keeps_its_input_but_not_its_weights() -> None:
    """5 x 3 float32 numbers; with a ReLU behind it, its 5 x 4 outputs as well."""
    x, layer = torch.randn(5, 3), nn.Linear(3, 4)
    assert bytes_kept(layer, x) == 4 * 5 * 3
    assert bytes_kept(nn.Sequential(layer, nn.ReLU()), x) == 4 * (5 * 3 + 5 * 4)


def test_a_tensor_that_two_operations_keep_counts_once() -> None:
    """Two layers of one input share its storage."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 4), nn.Linear(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.one(x) + self.two(x)

    assert bytes_kept(Twice(), torch.randn(5, 3)) == 4 * 5 * 3


def test_what_was_only_counted_has_no_gradient() -> None:
    """A backward pass through it is an error, not a wrong number."""
    outputs: list[torch.Tensor] = []
    layer = nn.Linear(3, 4)
    layer.register_forward_hook(lambda _, __, y: outputs.append(y))
    bytes_kept(layer, torch.randn(5, 3))
    with pytest.raises(RuntimeError, match="only counted"):
        outputs[0].sum().backward()


def test_multiply_adds_of_products_and_convolutions() -> None:
    """B x M x K x N per product, with or without an accumulator; a convolution by its pixels."""
    a, b, total = torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.zeros(2, 3, 5)
    assert multiply_adds(lambda: a @ b) == 2 * 3 * 4 * 5
    assert multiply_adds(lambda: total.baddbmm_(a, b)) == 2 * 3 * 4 * 5
    conv, x = nn.Conv2d(3, 8, 3, padding=1), torch.randn(2, 3, 6, 7)
    assert multiply_adds(lambda: conv(x)) == 2 * 6 * 7 * 8 * 3 * 9


def test_a_training_step_costs_three_forward_passes() -> None:
    """Backward of a layer whose input needs a gradient has two products of the same size."""
    layer, x = nn.Linear(3, 4), torch.randn(5, 3, requires_grad=True)
    assert multiply_adds(lambda: layer(x).sum().backward()) == 3 * 5 * 3 * 4
