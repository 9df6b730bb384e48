"""Networks whose blocks start from sigma = 0 are the network with the position encoding alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scalednl.config import BlockConfig, StackConfig
from scalednl.models.registry import create_model
from scalednl.options import Attention

STEPS = 3
TOLERANCE = 1e-10


def _network(name: str, attention: Attention | None, norm_init: float = 0.0) -> nn.Module:
    """A network in float64 from seed 0; without an attention, the one with the encoding alone."""
    torch.manual_seed(0)
    if attention is None:
        return create_model(name, position=True).double()
    config = StackConfig(BlockConfig(attention=attention, heads=2, init=0.0, norm_init=norm_init))
    with pytest.warns(UserWarning, match="dead block"):
        return create_model(name, blocks=config).double()


def _trained(network: nn.Module) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
    """The loss and the gradients of a few steps of SGD with momentum and weight decay."""
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    losses, gradients = [], []
    for _ in range(STEPS):
        images = torch.randn(8, 3, 16, 16, generator=generator, dtype=torch.float64)
        labels = torch.randint(10, (8,), generator=generator)
        optimizer.zero_grad()
        loss = F.cross_entropy(network(images), labels)
        loss.backward()
        losses.append(loss.detach())
        gradients.append(
            {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
        )
        optimizer.step()
    return losses, gradients


@pytest.mark.parametrize("name", ["preresnet8", "preresnet20"])
@pytest.mark.parametrize("norm_init", [0.0, 1.0])
@pytest.mark.parametrize("attention", ["softmax", "scaled"])
def test_zero_init_is_the_encoding_alone(name: str, attention: Attention, norm_init: float) -> None:
    """Over steps of SGD, losses and shared gradients equal those of the plain network + position.

    What a dead block still has is its norm's bias, a shift per channel of the residual stream,
    which every later batch norm takes out again.
    """
    losses, gradients = _trained(_network(name, attention, norm_init))
    wanted_losses, wanted = _trained(_network(name, None))
    torch.testing.assert_close(losses, wanted_losses, rtol=0, atol=TOLERANCE)
    for mine, theirs in zip(gradients, wanted, strict=True):
        shared = {key: mine[key] for key in theirs}
        torch.testing.assert_close(shared, theirs, rtol=0, atol=TOLERANCE)
        own = {key: value for key, value in mine.items() if key not in theirs}
        assert len(own) == 3 * 6
        assert all(value.abs().max() < TOLERANCE for value in own.values())


def test_a_live_block_trains_differently() -> None:
    """The comparison can fail: with He's initialisation and norm_init=1 losses move apart."""
    torch.manual_seed(0)
    config = StackConfig(BlockConfig(heads=2, norm_init=1.0))
    live, _ = _trained(create_model("preresnet8", blocks=config).double())
    alone, _ = _trained(_network("preresnet8", None))
    assert abs(live[-1] - alone[-1]) > 1e-3
