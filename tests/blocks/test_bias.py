"""Biases on some of the convolutions, as foreign checkpoints have them."""

import copy

import pytest
import torch

import scalednl
from scalednl.attentions import ATTENTIONS
from scalednl.config import BlockConfig, ModelConfig, StackConfig
from scalednl.ops.planner import Choice
from scalednl.options import CONVOLUTIONS, VIEWS, biased, orders_of
from tests.support import assert_close_all, force, laid_out, randomise, with_gradients

SUBSETS = [("theta", "phi", "g"), ("theta",), ("phi",), ("g", "out"), ("out",)]
ORDERS = [
    (attention, view, pool, order)
    for attention in ATTENTIONS
    for view in VIEWS
    for pool in (None, "before")
    for order, reason in orders_of(attention, view, key_pool=pool).items()
    if not reason
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("attention", "view", "pool", "order"), ORDERS)
def test_every_subset_in_every_order(
    attention: str, view: str, pool: str | None, order: str, training: bool
) -> None:
    """Values and gradients are the reference's, with and without a norm, in training and not."""
    for number, names in enumerate(SUBSETS):
        block = scalednl.NonLocal2d(
            6,
            attention=attention,
            view=view,  # type: ignore[arg-type]
            key_pool=pool,  # type: ignore[arg-type]
            heads=2,
            embed_channels=4,
            bias=names,
            norm=number % 2 == 0,
        )
        assert tuple(n for n in CONVOLUTIONS if getattr(block, n).bias is not None) == names
        assert block.state().biased == names
        randomise(force(block, Choice(order))).double().train(training)  # type: ignore[arg-type]
        x = laid_out(torch.randn(3, 6, 4, 5, dtype=torch.float64), "nchw")
        grad = torch.randn_like(x)
        truth = with_gradients(None, block, x, grad)
        assert_close_all(with_gradients(block, block, x, grad), truth, 1e-10)


@pytest.mark.parametrize("memory", ["auto", "lean"])
@pytest.mark.parametrize("names", SUBSETS, ids=str)
def test_batch_norm_folds_over_biased_embeddings(names: tuple[str, ...], memory: str) -> None:
    """Folded or, where out has a bias, not: the reference's numbers and the same statistics."""
    block = scalednl.NonLocal2d(6, heads=2, bias=names, memory=memory)  # type: ignore[arg-type]
    randomise(force(block, Choice("gram", True))).double()
    assert block.choice((3, 6, 4, 5)).fold == ("out" not in names)
    called = force(copy.deepcopy(block), Choice("associative"))
    x = laid_out(torch.randn(3, 6, 4, 5, dtype=torch.float64), "channels_last")
    grad = torch.randn_like(x)
    truth = with_gradients(None, block, x, grad)
    assert_close_all(with_gradients(block, block, x, grad), truth, 1e-10)
    called(x)
    assert_close_all(tuple(block.buffers()), tuple(called.buffers()), 1e-10)


def test_names_are_kept_in_a_file() -> None:
    """A config with named biases comes back equal, hashable and in one spelling."""
    config = ModelConfig("preresnet8", 10, StackConfig(BlockConfig(bias=("g", "theta"))))
    values = config.as_dict()
    values["blocks"]["block"]["bias"] = ["g", "theta"]
    again = ModelConfig.from_dict(values)
    assert again == config
    assert hash(again) == hash(config)
    assert again.blocks is not None
    assert again.blocks.block.bias == ("theta", "g")
    model = scalednl.create_model("preresnet8", blocks=again.blocks)
    assert "stack.0.g.bias" in model.state_dict()
    assert "stack.0.phi.bias" not in model.state_dict()


def test_biases_that_do_not_exist_are_named() -> None:
    """True and False are all and none; a wrong name or type is answered with what would work."""
    assert biased(True) == CONVOLUTIONS
    assert biased(False) == ()
    with pytest.raises(ValueError, match=r"bias='thetta' is unknown.*did you mean 'theta'"):
        scalednl.NonLocal2d(8, bias=("thetta",))
    for wrong in ("theta", 1, None, ()):
        with pytest.raises(ValueError, match=r"must be True, False, or names of convolutions"):
            biased(wrong)
