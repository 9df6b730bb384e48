"""Options by name: what is allowed, and the sentences that answer what is not."""

import math

import pytest
import torch

from scalednl.attentions import ATTENTIONS
from scalednl.options import (
    ORDERS,
    VIEWS,
    Order,
    biased,
    check_attention_options,
    check_center,
    check_dropout,
    check_heads,
    check_init,
    check_key_pool,
    check_name,
    check_order,
    check_positive,
    check_reference,
    check_reference_pixels,
    check_softmax_scale,
    default_init,
    orders_of,
    suggestion,
)

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (lambda: check_name("view", "bass", VIEWS), "view='bass' is unknown.*did you mean 'base'"),
        (
            lambda: check_name("view", 3, VIEWS),
            "^view=3 is unknown: use 'base', .* or 'direction'$",
        ),
        (lambda: check_positive("heads", 0), "^heads=0 must be a whole number of at least 1$"),
        (lambda: check_positive("heads", True), "heads=True must be a whole number"),
        (lambda: check_positive("heads", 2.0), "heads=2.0 must be a whole number"),
        (
            lambda: check_heads(6, 4),
            "heads=4 does not divide embed_channels=6: use .* 1, 2, 3 or 6",
        ),
        (lambda: check_init("xavier", True, 0.0), "init='xavier' is unknown: use \"he\""),
        (lambda: check_init(-0.1, True, 0.0), "init=-0.1 is unknown"),
        (lambda: check_init(math.nan, True, 0.0), "init=nan is unknown"),
        (lambda: check_init("he", "batch", 0.0), "norm='batch' must be True or False.*norm_layer"),
        (lambda: check_init("he", True, None), "norm_init=None must be a number"),
        (lambda: check_attention_options(6, 2, "mean", "base", False), "scale=False drops"),
        (lambda: check_center("key", "scaled"), "center='key' is unknown.*did you mean"),
        (lambda: check_center("keys", "softmax"), "center='keys' is for attention without softmax"),
        (lambda: check_softmax_scale("head", "softmax"), "softmax_scale='head' is unknown"),
        (lambda: check_softmax_scale(0.5, "scaled"), "is for attention='softmax', not 'scaled'"),
        (lambda: check_reference_pixels("runing", "scaled", True), "='runing' is unknown"),
        (lambda: check_reference_pixels(2.5, "scaled", True), "=2.5 must be a whole number"),
        (lambda: check_reference_pixels(9, "mean", True), "=9 replaces .* attention='mean'"),
        (lambda: check_reference_pixels(9, "scaled", False), "with scale=False has no such factor"),
        (lambda: check_key_pool("around", 2), "key_pool='around' is unknown"),
        (lambda: check_key_pool("after", 0), "^key_pool_size=0 must be a whole number of at least"),
        (lambda: check_key_pool("after", True), "^key_pool_size=True must be a whole number"),
        (lambda: check_key_pool("after", 2.0), "^key_pool_size=2.0 must be a whole number"),
        (lambda: check_key_pool("after", "3"), "^key_pool_size='3' must be a whole number"),
        (lambda: check_key_pool("after", ()), r"^key_pool_size=\(\) must .* or a tuple of such"),
        (lambda: check_key_pool("after", (2, 0)), r"^key_pool_size=\(2, 0\) must be"),
        (lambda: check_key_pool(None, 3), "^key_pool_size=3 has no effect .* or leave it out"),
        (lambda: check_dropout(1.0), "^dropout=1.0 must be a number from 0 to below 1$"),
        (lambda: check_dropout(-0.1), "^dropout=-0.1 must be a number"),
        (lambda: check_dropout(math.nan), "^dropout=nan must be a number"),
        (lambda: check_dropout(True), "^dropout=True must be a number"),
        (lambda: check_dropout("0.3"), "^dropout='0.3' must be a number"),
        (lambda: biased("theta"), "bias='theta' must be True, False, or names"),
    ],
)
def test_a_wrong_option_is_repeated(check: object, sentence: str) -> None:
    """Every refusal has the option, the value that was passed, and what would work."""
    assert callable(check)
    with pytest.raises(ValueError, match=sentence):
        check()


@pytest.mark.parametrize("value", ["running", 0, -4, math.nan, math.inf, True])
def test_functions_take_a_number_above_zero_as_the_reference(value: object) -> None:
    """Anything else is refused, and so is a number where 1/sqrt(N) does not exist."""
    with pytest.raises(ValueError, match=f"^reference_pixels={value!r} must be a number above 0"):
        check_reference(value, "scaled", True)
    for good in (None, 2.5, 9, torch.tensor(0)):
        check_reference(good, "scaled", True)
    with pytest.raises(ValueError, match="reference_pixels=9 replaces the 1/sqrt"):
        check_reference(9, "softmax", True)


def test_what_is_allowed_passes() -> None:
    """Numbers of other libraries count as whole numbers; names that were listed are fine."""
    assert check_positive("heads", torch.tensor(3)) == 3
    assert biased(["g", "theta"]) == ("theta", "g")
    assert [default_init(attention) for attention in ATTENTIONS] == ["he", 0.01, "he"]
    check_init(0.0, False, 1)
    check_softmax_scale("learned", "softmax")
    check_reference_pixels("running", "scaled", True)
    assert check_key_pool("after", torch.tensor(3)) == 3
    assert check_key_pool("before", [1, 2]) == (1, 2)
    assert check_key_pool(None, 2) == 2
    check_dropout(0)
    check_dropout(0.5)
    assert suggestion("zzzzzz", ATTENTIONS) == ""
    assert suggestion("softmx", ATTENTIONS) == "; did you mean 'softmax'?"


@pytest.mark.parametrize(
    ("attention", "view", "options", "usable"),
    [
        ("scaled", "base", {}, ["quadratic", "associative", "gram"]),
        ("mean", "magnitude", {}, ["quadratic", "associative", "rank_one"]),
        ("scaled", "direction", {}, ["quadratic", "associative"]),
        ("softmax", "magnitude", {}, ["quadratic", "fused"]),
        ("scaled", "base", {"key_pool": "before"}, ["quadratic", "associative", "gram"]),
        ("scaled", "base", {"key_pool": "after"}, ["quadratic", "associative"]),
        ("scaled", "magnitude", {"plain": False}, ["quadratic", "associative"]),
    ],
)
def test_which_orders_apply(
    attention: str, view: str, options: dict[str, str], usable: list[Order]
) -> None:
    """Each attention and view has its orders; every other one has a reason, which errors state."""
    reasons = orders_of(attention, view, **options)  # type: ignore[arg-type]
    assert tuple(reasons) == ORDERS
    assert [name for name, reason in reasons.items() if not reason] == usable
    for name, reason in reasons.items():
        if reason:
            with pytest.raises(ValueError, match=f"order='{name}' cannot be used: .*; use 'auto'"):
                check_order(name, reasons)
        else:
            check_order(name, reasons)
    check_order("auto", reasons)
