"""The table of attentions: what can be registered, under which names, and what cannot."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import scalednl
from scalednl.attentions import ATTENTIONS, BUILT_IN, declare_attention, own_attentions
from scalednl.options import default_init, orders_of
from tests.own_attentions import registered

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture(autouse=True)
def _own() -> Iterator[None]:
    with registered():
        yield


def test_a_registered_attention_is_beside_the_built_in_ones() -> None:
    """It has a place in the table, starts as scaled does, and has the orders registered with it."""
    assert own_attentions() == ["sigmoid", "kernel"]
    assert tuple(ATTENTIONS) == (*BUILT_IN, "sigmoid", "kernel")
    assert default_init("sigmoid") == "he"
    usable = {
        name: [o for o, why in orders_of(name, "base").items() if not why] for name in ATTENTIONS
    }
    assert usable["sigmoid"] == ["quadratic"]
    assert usable["kernel"] == ["quadratic", "associative"]


def test_the_decorated_name_is_still_a_function() -> None:
    """What the decorator returns can be called with embeddings."""
    theta, phi = torch.randn(2, 1, 1, 4, 3)
    assert torch.equal(
        ATTENTIONS["sigmoid"](theta, phi), torch.sigmoid(theta @ phi.mT / 3**0.5) / 4
    )


@pytest.mark.parametrize(
    ("function", "options", "sentence"),
    [
        (lambda theta, phi: theta @ phi, {}, "cannot be called '<lambda>'"),
        (lambda theta, phi: theta @ phi, {"name": "softmax"}, "cannot be called 'softmax'"),
        (lambda theta, phi: theta @ phi, {"name": "plain"}, "cannot be called 'plain'"),
        (lambda theta, phi: theta @ phi, {"name": "../up"}, "cannot be called '../up'"),
        (lambda theta: theta, {"name": "one"}, r"must take \(theta, phi\).*takes \(theta\)"),
        (lambda *all: all, {"name": "any"}, r"takes \(\*all\)"),
        (lambda a, b, c, d: a + b + c + d, {"name": "four"}, r"takes \(a, b, c, d\)"),
        (
            lambda a, b: a @ b,
            {"name": "sigmoid"},
            "'sigmoid' is already registered by .*choose another",
        ),
        (torch.nn.Linear(2, 2), {"name": "module"}, "classes, and modules .* are not supported"),
        (torch.nn.Linear, {"name": "kind"}, "classes, and modules"),
        ("softmax", {"name": "word"}, "takes a function, but got 'softmax'"),
    ],
)
def test_what_cannot_be_registered_is_one_sentence(
    function: Any, options: dict[str, Any], sentence: str
) -> None:
    """Names that are taken, reserved or no names, and functions of other arguments."""
    with pytest.raises(ValueError, match=sentence):
        scalednl.register_attention(**options)(function)


def test_only_two_orders_can_be_registered() -> None:
    """gram and rank_one start from x; a function must take theta, phi and g."""
    kind = ATTENTIONS["sigmoid"]
    with pytest.raises(ValueError, match="order='gram' cannot be registered: use associative or"):
        kind.order("gram")
    with pytest.raises(ValueError, match=r"must take \(theta, phi, g\)"):
        kind.order("fused")(lambda theta, phi: theta @ phi)


def test_a_cell_that_is_executed_again_replaces_its_attention() -> None:
    """The same function of the same place, changed, takes the place of the old one."""

    def define(factor: float) -> None:
        @scalednl.register_attention
        def again(theta: Tensor, phi: Tensor) -> Tensor:
            return factor * theta @ phi.mT

    x = torch.randn(1, 4, 3, 3)
    torch.manual_seed(0)
    define(1.0)
    block = scalednl.NonLocal2d(4, attention="again", heads=1, norm=False)
    first = block(x) - x
    define(2.0)
    assert torch.allclose(block(x) - x, 2 * first, atol=1e-6)


def test_a_name_from_a_record_can_be_read_but_not_computed() -> None:
    """A declared name makes configs readable; a block says what is missing."""
    declare_attention("hearsay")
    assert scalednl.BlockConfig(attention="hearsay").attention == "hearsay"
    assert "hearsay" not in own_attentions()
    with pytest.raises(ValueError, match="'hearsay' is known by name alone: import the file"):
        scalednl.NonLocal2d(4, attention="hearsay")
    declare_attention("sigmoid")
    assert ATTENTIONS["sigmoid"].function is not None
    declare_attention("../bad")
    declare_attention("plain")
    assert not {"../bad", "plain"} & ATTENTIONS.keys()


def test_an_unknown_attention_suggests_a_registered_one() -> None:
    """The sentence lists all names, own ones too, or says that one must be registered."""
    with pytest.raises(ValueError, match=r"use 'scaled', .*'kernel'; did you mean 'sigmoid'"):
        scalednl.NonLocal2d(4, attention="sigmoyd")
    with pytest.raises(ValueError, match="one of your own must be registered first"):
        scalednl.BlockConfig(attention="zzzz")
