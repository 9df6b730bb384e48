"""An attention of a user's own under torch.compile and torch.export."""

import pytest
import torch

import scalednl
from tests.own_attentions import registered
from tests.support import assert_close


@pytest.mark.parametrize("attention", ["sigmoid", "kernel"])
def test_compiled_and_exported_blocks_compute_the_same(attention: str) -> None:
    """One graph, values and gradients of the eager block; exported with open sizes."""
    with registered():
        block = scalednl.NonLocal2d(8, attention=attention, heads=2, norm_init=1.0).double()
        x = torch.randn(2, 8, 5, 6, dtype=torch.float64, requires_grad=True)
        compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
        grads = [torch.autograd.grad(f(x).square().sum(), x)[0] for f in (block, compiled)]
        assert_close(grads[1], grads[0], 1e-10)
        block.eval()
        sizes = {
            0: torch.export.Dim.DYNAMIC,
            2: torch.export.Dim.DYNAMIC,
            3: torch.export.Dim.DYNAMIC,
        }
        with torch.no_grad():
            program = torch.export.export(
                block, (x.detach(),), dynamic_shapes=(sizes,), strict=False
            )
            other = torch.randn(3, 8, 7, 4, dtype=torch.float64)
            assert_close(program.module()(other), block(other), 1e-10)
