"""What a conversion carries over besides the function: the state of parameters, norms and hooks."""

import copy

import pytest
import torch
from torch import Tensor, nn

import scalednl
from tests.models.foreign_blocks import PAM, Attention, NONLocalBlock, over, softmax
from tests.support import assert_close, randomise


def converted(block: nn.Module) -> scalednl.NonLocal2d:
    """Our block of the same function."""
    ours, _ = scalednl.convert(block, attention="same")
    assert isinstance(ours, scalednl.NonLocal2d)
    return ours


def test_an_optimizer_made_before_still_trains() -> None:
    """The parameters are the same objects, so an optimizer that holds them needs no change."""
    block = randomise(NONLocalBlock(8, over(1)))
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    ours = converted(block)
    assert {id(p) for p in ours.parameters()} == {id(p) for p in block.parameters()}
    before = ours.theta.weight.detach().clone()
    ours(torch.randn(2, 8, 5, 5)).square().sum().backward()
    optimizer.step()
    assert not torch.equal(ours.theta.weight, before)


def test_frozen_parameters_stay_frozen() -> None:
    """requires_grad is carried over for every parameter, also for those that were multiplied."""
    block = NONLocalBlock(8, softmax())
    block.theta.weight.requires_grad_(False)
    block.W[1].bias.requires_grad_(False)  # type: ignore[index, union-attr]
    ours = converted(block)
    frozen = {name for name, p in ours.named_parameters() if not p.requires_grad}
    assert frozen == {"theta.weight", "norm.bias"}
    folded = Attention(16)
    folded.requires_grad_(False)
    folded.g.weight.requires_grad_(True)
    names = {name for name, p in converted(folded).named_parameters() if p.requires_grad}
    assert names == {"g.weight"}


def test_an_identity_that_was_no_parameter_is_not_trained() -> None:
    """Without gamma and output convolution, out is an identity that training leaves alone."""
    block = PAM(8)
    del block.gamma
    block.gamma = 1.0  # type: ignore[assignment]
    ours = converted(block)
    assert torch.equal(ours.out.weight.flatten(1), torch.eye(8))
    assert not ours.out.weight.requires_grad


def test_frozen_norms_and_the_mode_stay() -> None:
    """A norm frozen by eval() inside a training block stays frozen; the mode is the block's."""
    block = randomise(NONLocalBlock(8, softmax())).train()
    block.W[1].eval()  # type: ignore[index, union-attr]
    ours = converted(block)
    assert ours.training
    assert ours.norm is not None
    assert not ours.norm.training
    x = torch.randn(2, 8, 4, 5)
    assert_close(ours(x), block(x), 1e-5)
    assert not converted(NONLocalBlock(8, softmax()).eval()).training


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_parameter_keeps_its_dtype(dtype: torch.dtype) -> None:
    """Half-precision convolutions beside a float32 norm stay what they are, and run."""
    block = randomise(NONLocalBlock(8, softmax(0.1))).to(dtype).eval()
    block.W[1].float()  # type: ignore[index]
    x = torch.randn(2, 8, 4, 5).to(dtype)
    twin = copy.deepcopy(block).float()
    ours = converted(block)
    assert ours.theta.weight.dtype == dtype
    assert ours.norm is not None
    assert {b.dtype for b in ours.norm.parameters()} == {torch.float32}
    assert_close(ours(x).float(), twin(x.float()), 0.02)
    assert {p.dtype for p in converted(Attention(16).to(dtype)).parameters()} == {dtype}


def test_hooks_of_the_block_are_carried_over() -> None:
    """Hooks run on the new block and not in the trial, and their handles still remove them."""
    block = randomise(NONLocalBlock(8, softmax()))
    calls: list[str] = []
    first = block.register_forward_hook(lambda *_: calls.append("forward"))
    block.register_forward_pre_hook(lambda *_: calls.append("before"))
    block.register_full_backward_hook(lambda *_: calls.append("backward"))
    block.theta.register_forward_hook(lambda *_: calls.append("theta"))
    ours, report = scalednl.convert(block, attention="same")
    assert calls == []
    assert "3 hooks carried over" in str(report)
    ours(torch.randn(2, 8, 4, 4, requires_grad=True)).sum().backward()
    assert calls == ["before", "theta", "forward", "backward"]
    first.remove()
    ours(torch.randn(2, 8, 4, 4))
    assert calls[4:] == ["before", "theta"]


@pytest.mark.parametrize("name", ["phi", "W"])
def test_hooks_that_would_be_lost_are_a_reason(name: str) -> None:
    """A hook on a container that does not exist afterwards keeps the block from conversion."""
    block = NONLocalBlock(8, softmax(), pool=nn.MaxPool2d(2))
    block.get_submodule(name).register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match=f"has a hook on {name}, .* remove it"):
        scalednl.convert(block)
    block = NONLocalBlock(8, softmax())
    block._register_state_dict_hook(lambda *_: None)  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match="hooks on its state_dict"):
        scalednl.convert(block)


def test_a_block_used_twice_stays_one_block() -> None:
    """Shared modules are converted once, wherever they are; shared convolutions stay shared."""
    block = randomise(NONLocalBlock(8, softmax())).eval()
    other = NONLocalBlock(8, over(1))
    other.theta = block.theta
    network = nn.ModuleDict({"a": block, "b": nn.Sequential(block), "c": other})
    network, report = scalednl.convert(network, attention="same")  # type: ignore[assignment]
    assert len(report.conversions) == 3
    assert network.get_submodule("a") is network.get_submodule("b.0")
    assert network.get_submodule("a.theta") is network.get_submodule("c.theta")


@pytest.mark.parametrize("norm", [nn.GroupNorm(2, 8), nn.InstanceNorm2d(8), nn.SyncBatchNorm(8)])
def test_other_norms_are_kept_as_they_are(norm: nn.Module) -> None:
    """Group, instance and synchronised norms follow out as before, in both modes."""
    block = NONLocalBlock(8, softmax())
    assert isinstance(block.W, nn.Sequential)
    block.W[1] = copy.deepcopy(norm)
    randomise(block).double()
    ours = converted(copy.deepcopy(block))
    assert type(ours.norm) is type(norm)
    x = torch.randn(2, 8, 4, 5, dtype=torch.float64)
    for training in (False, True):
        assert_close(ours.train(training)(x), block.train(training)(x), 1e-10)


def test_spectral_norm_stays() -> None:
    """Convolutions that compute their weights are kept and called; the report says so."""
    block = randomise(NONLocalBlock(8, over(1), norm=False)).double()
    nn.utils.parametrizations.spectral_norm(block.theta)
    twin = copy.deepcopy(block)
    ours, report = scalednl.convert(block, attention="same")
    assert "no gram order" in str(report)
    x = torch.randn(2, 8, 4, 5, dtype=torch.float64)
    for training in (True, False):
        assert_close(ours.train(training)(x), twin.train(training)(x), 1e-10)


def test_wrapped_networks() -> None:
    """Blocks inside DataParallel and torch.compile are found under their paths there."""
    block = randomise(NONLocalBlock(8, softmax())).eval()
    x = torch.randn(1, 8, 4, 4)
    truth = block(x)
    network, report = scalednl.convert(nn.DataParallel(nn.Sequential(block)), attention="same")
    assert report.conversions[0].path == "module.0"
    assert_close(network(x), truth, 1e-5)
    with pytest.raises(ValueError, match=r"convert it before torch\.compile"):
        scalednl.convert(torch.compile(NONLocalBlock(8, softmax())))  # type: ignore[arg-type]


def gradients(block: nn.Module, x: Tensor) -> list[Tensor]:
    """Gradients of every parameter."""
    return list(torch.autograd.grad(block(x).square().sum(), list(block.parameters())))


def test_gradients_of_every_parameter() -> None:
    """Not only the gradient for x but that of each weight is the same to 1e-10."""
    block = randomise(NONLocalBlock(8, over(1))).double()
    x = torch.randn(2, 8, 4, 5, dtype=torch.float64)
    truth = dict(zip(map(id, block.parameters()), gradients(block, x), strict=True))
    ours = converted(block)
    for parameter, gradient in zip(ours.parameters(), gradients(ours, x), strict=True):
        assert_close(gradient, truth[id(parameter)], 1e-10)


def test_a_block_that_remembers_its_map() -> None:
    """A block that has run and kept its attention, graph included, is converted as any other."""

    class Remembering(NONLocalBlock):
        def forward(self, x: Tensor) -> Tensor:
            z = super().forward(x)
            self.last = z * 2
            return z

    block = randomise(Remembering(8, softmax()))
    x = torch.randn(2, 8, 4, 5)
    truth = block(x).detach()
    assert_close(converted(block)(x), truth, 1e-5)
