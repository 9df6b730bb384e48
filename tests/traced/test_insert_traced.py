"""Networks with inserted stacks under torch.compile and torch.export, and back from a file."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import scalednl
from tests.models.hosts import LoopingChildren
from tests.models.test_feature_layout import ChannelsLast, Patches
from tests.models.test_inserted import Appending
from tests.support import assert_close, randomise

CASES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "sequential": (lambda: nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU()), "0"),
    "looping": (lambda: nn.Sequential(nn.Conv2d(3, 8, 1), LoopingChildren()), "1"),
    "appending": (lambda: nn.Sequential(nn.Conv2d(3, 8, 1), Appending(nn.Conv2d(8, 8, 1))), "1"),
    "NHWC": (ChannelsLast, "turn"),
    "tokens": (lambda: Patches(1), "layers.a"),
}
IMAGES = torch.randn(2, 3, 24, 20, generator=torch.Generator().manual_seed(0))


@pytest.fixture(params=CASES)
def network(request: pytest.FixtureRequest) -> nn.Module:
    """A network with a block that does something."""
    make, at = CASES[request.param]
    model, _ = scalednl.insert_nonlocal(make(), at, example=IMAGES)
    for module in model.modules():
        if isinstance(module, scalednl.NonLocal1d | scalednl.NonLocal2d):
            randomise(module)
    return model.eval()


def test_compiled(network: nn.Module) -> None:
    """One graph, the same output."""
    torch.compiler.reset()
    compiled = torch.compile(copy.deepcopy(network), fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert_close(compiled(IMAGES), network(IMAGES), 1e-5)


def test_exported(network: nn.Module) -> None:
    """torch.export includes the stack."""
    with torch.no_grad():
        exported = torch.export.export(network, (IMAGES,)).module()
        assert_close(exported(IMAGES), network(IMAGES), 1e-5)


def test_saved_and_loaded(network: nn.Module, tmp_path: Path) -> None:
    """A state_dict goes through a file into a copy with other weights."""
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    other = copy.deepcopy(network)
    for parameter in other.parameters():
        nn.init.zeros_(parameter)
    other.load_state_dict(torch.load(tmp_path / "weights.pt"))
    output: Tensor = other(IMAGES)
    assert torch.equal(output, network(IMAGES))


def test_a_compiled_network_is_refused() -> None:
    """Blocks must go in before torch.compile."""
    compiled = torch.compile(nn.Sequential(nn.Conv2d(3, 8, 1)))
    assert isinstance(compiled, nn.Module)
    with pytest.raises(ValueError, match=r"wrapped \(OptimizedModule\).*insert the blocks first"):
        scalednl.insert_nonlocal(compiled, "_orig_mod.0", example=IMAGES)
