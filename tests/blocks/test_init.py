"""The three initialisations, and the dead block that one of them makes."""

import warnings

import pytest
import torch

import scalednl
from scalednl.attentions import ATTENTIONS


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_each_attention_starts_from_its_best_column(attention: str) -> None:
    """Scaled and mean start from He (fan out), softmax from a deviation of 0.01; gamma from 0."""
    block = scalednl.NonLocal2d(256, attention=attention, embed_channels=128)
    for name in ("theta", "phi", "g", "out"):
        weight = getattr(block, name).weight
        wanted = 0.01 if attention == "softmax" else (2 / weight.shape[0]) ** 0.5
        assert weight.std().item() == pytest.approx(wanted, rel=0.03)
    assert block.norm is not None
    assert block.norm.weight.eq(0).all()  # type: ignore[operator]
    assert block.norm.bias.eq(0).all()  # type: ignore[operator]


def test_options_of_the_start() -> None:
    """A number is a standard deviation, norm_init is gamma, and biases start at zero."""
    block = scalednl.NonLocal2d(64, init=0.2, norm_init=1.0, bias=True)
    assert block.theta.weight.std().item() == pytest.approx(0.2, rel=0.05)
    assert block.norm is not None
    assert block.norm.weight.eq(1).all()  # type: ignore[operator]
    assert all(conv.bias.eq(0).all() for conv in (block.theta, block.out) if conv.bias is not None)


def test_zero_init_warns_and_is_dead() -> None:
    """With init=0.0 every gradient but that of the norm's bias is exactly zero, and stays so."""
    with pytest.warns(UserWarning, match=r"init=0\.0 makes a dead block.*only a norm's bias"):
        block = scalednl.NonLocal2d(8, init=0.0, norm_init=1.0)
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        block(torch.randn(4, 8, 4, 4)).pow(3).sum().backward()
        for name, parameter in block.named_parameters():
            assert parameter.grad is not None
            assert bool(parameter.grad.any()) == (name == "norm.bias")
        optimizer.step()


def test_gamma_zero_alone_is_not_dead() -> None:
    """At gamma 0 only the norm learns at first; after one step every weight does, unwarned."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        block = scalednl.NonLocal2d(8)
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    block(torch.randn(4, 8, 4, 4)).pow(3).sum().backward()
    assert not any(p.grad.any() for n, p in block.named_parameters() if "norm" not in n)  # type: ignore[union-attr]
    optimizer.step()
    optimizer.zero_grad()
    block(torch.randn(4, 8, 4, 4)).pow(3).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in block.parameters())


def test_without_the_scale_the_branch_grows_with_the_map() -> None:
    """scale=False multiplies the branch by sqrt(N): what makes training diverge."""
    block = scalednl.NonLocal2d(8, norm=False)
    bare = scalednl.NonLocal2d(8, norm=False, scale=False)
    bare.load_state_dict(block.state_dict())
    x = torch.randn(2, 8, 16, 16)
    ratio = (bare(x) - x).norm() / (block(x) - x).norm()
    assert ratio.item() == pytest.approx(16.0, rel=1e-3)
