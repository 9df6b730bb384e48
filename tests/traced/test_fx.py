"""torch.fx keeps a block as one node in anyone's tracer; TorchScript is refused with a sentence."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import scalednl
from tests.peers.builders import torchvision_models
from tests.support import assert_close, randomise


def _network() -> nn.Module:
    layers = [nn.Conv2d(3, 8, 3, padding=1), scalednl.NonLocal2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)]
    return randomise(nn.Sequential(*layers))


@pytest.mark.parametrize("training", [True, False])
def test_symbolic_trace(training: bool) -> None:
    """The traced network calls the block, at any size, and gives the same output and gradients."""
    network = _network().train(training)
    traced = torch.fx.symbolic_trace(network)
    assert [node.target for node in traced.graph.nodes if node.op == "call_module"][1] == "1"
    for side in (6, 9):
        x = torch.randn(2, 3, side, side)
        z, again = network(x), traced(x)
        assert_close(again, z, 1e-6)
        gradients = [torch.autograd.grad(v.sum(), list(network.parameters())) for v in (z, again)]
        for one, other in zip(*gradients, strict=True):
            assert_close(other, one, 1e-5)


def test_networks_of_ours_are_traced() -> None:
    """A network with position encoding and blocks goes through fx."""
    network = scalednl.create_model("preresnet8", position=False, blocks=scalednl.StackConfig())
    traced = torch.fx.symbolic_trace(network.eval())
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(traced(x), network(x))


def test_torchvisions_feature_extractor() -> None:
    """create_feature_extractor returns the maps of a block that was inserted into a ResNet."""
    models = torchvision_models()
    extraction = pytest.importorskip("torchvision.models.feature_extraction")
    network = models.resnet18(weights=None)
    network.layer2 = nn.Sequential(network.layer2, randomise(scalednl.NonLocal2d(128)))
    network.eval()
    extractor = extraction.create_feature_extractor(network, ["layer2.1", "layer4"])
    assert "layer2.1" in extraction.get_graph_node_names(network)[1]
    x = torch.randn(1, 3, 64, 64)
    found = extractor(x)
    y = network.maxpool(network.relu(network.bn1(network.conv1(x))))
    assert_close(found["layer2.1"], network.layer2(network.layer1(y)), 1e-6)
    assert found["layer4"].shape == (1, 512, 2, 2)


def test_a_block_alone_says_what_to_trace() -> None:
    """A graph cannot have its root as a node."""
    with pytest.raises(ValueError, match=r"trace the network around it, or use torch.export"):
        torch.fx.symbolic_trace(scalednl.NonLocal2d(8))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("network", [_network, lambda: scalednl.NonLocal2d(3, heads=3)])
def test_torchscript_is_refused(network: Callable[[], nn.Module]) -> None:
    """torch.jit.trace and torch.jit.script name torch.export."""
    sentence = r"NonLocal2d picks its order .* use torch.export.export"
    x: Tensor = torch.randn(1, 3, 6, 6)
    with pytest.raises(RuntimeError, match=sentence):
        torch.jit.trace(network(), x)
    with pytest.raises(RuntimeError, match=sentence):
        torch.jit.script(network())
