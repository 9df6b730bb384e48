"""Checkpoints as training scripts save them: one call loads all of them, or nothing."""

import argparse
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.safetensors_file import save_tensors
from tests.models.foreign_blocks import (
    PAM,
    Attention,
    Authors,
    Nonlocal,
    NONLocalBlock,
    over,
)
from tests.support import assert_close, randomise


def theirs() -> nn.Sequential:
    """A network with a foreign block."""
    return randomise(nn.Sequential(nn.Conv2d(3, 8, 1), NONLocalBlock(8, over(1)))).eval()


def ours(**options: Any) -> nn.Sequential:
    """The same network with a block of ours."""
    options = {"attention": "mean", "heads": 1, "embed_channels": 4, "bias": True, **options}
    return nn.Sequential(nn.Conv2d(3, 8, 1), scalednl.NonLocal2d(8, **options)).eval()


def prefixed(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Every key with a prefix."""
    return {f"{prefix}{key}": value for key, value in state.items()}


WRAPPED: dict[str, Callable[[dict[str, Tensor]], Any]] = {
    "bare": lambda state: state,
    "script": lambda state: {"epoch": 3, "state_dict": prefixed(state, "module."), "best": 0.5},
    "compiled": lambda state: {"model": prefixed(state, "module._orig_mod.")},
    "inner": lambda state: {"model": {"state_dict": state}, "optimizer": {"state": {0: {}}}},
    "average": lambda state: {"ema": prefixed(state, "module."), "step": 1},
    "both": lambda state: {
        "state_dict_ema": {k: v + 1 for k, v in state.items()},
        "state_dict": state,
    },
}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("suffix", [None, ".pth"])
def test_one_call(name: str, suffix: str | None, tmp_path: Path) -> None:
    """Wrappers and prefixes are removed, whether a file or what is in it is given."""
    network, model = theirs(), ours()
    checkpoint: Any = WRAPPED[name](dict(network.state_dict()))
    if suffix is not None:
        torch.save(checkpoint, tmp_path / f"x{suffix}")
        checkpoint = tmp_path / f"x{suffix}"
    assert scalednl.load_foreign_state_dict(model, checkpoint) == ("1",)
    x = torch.randn(2, 3, 5, 6)
    assert_close(model(x), network(x), 1e-5)


def test_safetensors_and_wrapped_models(tmp_path: Path) -> None:
    """A safetensors file loads, also into a model that is itself wrapped."""
    network, model = theirs(), ours()
    save_tensors(network.state_dict(), tmp_path / "x.safetensors", {})
    wrapped = nn.DataParallel(model)
    paths = scalednl.load_foreign_state_dict(wrapped, str(tmp_path / "x.safetensors"))
    assert paths == ("module.1",)
    x = torch.randn(2, 3, 5, 6)
    assert_close(model(x), network(x), 1e-5)


def test_arguments_and_numbers_beside_the_weights(tmp_path: Path) -> None:
    """A file with a Namespace and NumPy numbers, as scripts save them, loads without trust."""
    extras = {"args": argparse.Namespace(lr=0.1), "best": np.float64(93.5), "step": np.int64(3)}
    torch.save({"state_dict": theirs().state_dict(), **extras}, tmp_path / "x.pth")
    assert scalednl.load_foreign_state_dict(ours(), tmp_path / "x.pth") == ("1",)


LAYOUTS: dict[str, tuple[nn.Module, dict[str, Any]]] = {
    "authors": (Authors(8, 2, over(0.5, 4)), {"heads": 2}),
    "pooled": (
        NONLocalBlock(8, over(1), pool=nn.MaxPool2d(2), norm=False, out="W_z"),
        {"attention": "mean", "embed_channels": 4, "bias": True, "key_pool": "after"},
    ),
    "pool of 3": (
        NONLocalBlock(8, over(1), pool=nn.MaxPool2d(3), norm=False),
        {
            "attention": "mean",
            "embed_channels": 4,
            "bias": True,
            "key_pool": "after",
            "key_pool_size": 3,
        },
    ),
    "PAM": (PAM(8), {"attention": "softmax", "softmax_scale": 1.0, "bias": True}),
    "BigGAN": (
        Attention(8),
        {"attention": "softmax", "softmax_scale": 1.0, "embed_channels": 4, "key_pool": "after"},
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    """Every layout loads into a block of the same options, gammas and other widths included."""
    block, options = LAYOUTS[name]
    block = randomise(copy.deepcopy(block)).double().eval()
    norm = any("bn" in key for key in block.state_dict())
    model = scalednl.NonLocal2d(8, **{"heads": 1, "norm": norm, **options}).double().eval()
    assert scalednl.load_foreign_state_dict(model, block.state_dict()) == ("",)
    x = torch.randn(2, 8, 5, 6, dtype=torch.float64)
    assert_close(model(x), block(x), 1e-10)


RENAMES = [
    {"layer2.nonlocal.head": "stack", "layer2": "rest"},
    {"layer2": "rest", "layer2.nonlocal.head": "stack"},
    {"module.layer2": "rest", "module.layer2.nonlocal.head.": "stack"},
]


@pytest.mark.parametrize("rename", RENAMES)
def test_renaming_does_not_depend_on_the_order(rename: dict[str, str]) -> None:
    """The longest prefix of the table counts, with or without `module.`."""
    blocks = nn.Sequential(*(randomise(Authors(8, 2, over(0.5, 4))) for _ in range(2))).eval()
    state = prefixed(dict(blocks.state_dict()), "module.layer2.nonlocal.head.")
    state["module.layer2.0.weight"] = torch.ones(2, 2)
    model = nn.ModuleDict(
        {
            "stack": nn.Sequential(*(scalednl.NonLocal2d(8, heads=2) for _ in range(2))),
            "rest": nn.Sequential(nn.Linear(2, 2, bias=False)),
        }
    ).eval()
    assert scalednl.load_foreign_state_dict(model, state, rename) == ("stack.0", "stack.1")
    x = torch.randn(2, 8, 4, 6)
    assert_close(model["stack"](x), blocks(x), 1e-5)


@pytest.mark.parametrize(("rename", "start"), [({"module": ""}, "module."), ({"": "net"}, "")])
def test_prefixes_that_are_removed_or_added(rename: dict[str, str], start: str) -> None:
    """An empty prefix stands for everything, or for nothing."""
    network, model = theirs(), ours()
    state = prefixed(dict(network.state_dict()), start)
    target = nn.ModuleDict({"net": model}) if rename.get("") else model
    assert len(scalednl.load_foreign_state_dict(target, state, rename)) == 1
    assert torch.equal(model[0].weight, network[0].weight)  # type: ignore[arg-type]


def broken(**changes: Any) -> dict[str, Any]:
    """The state of `theirs` with keys changed; None removes one."""
    state: dict[str, Any] = {**theirs().state_dict(), **changes}
    return {key: value for key, value in state.items() if value is not None}


BAD: dict[str, tuple[dict[str, Any], Any, str]] = {
    "missing": ({}, broken(**{"0.bias": None}), "not in the checkpoint: 0.bias"),
    "further": ({}, broken(**{"9.bias": torch.ones(1)}), "not in the model: 9.bias"),
    "shape": (
        {},
        broken(**{"0.weight": torch.ones(8, 4, 1, 1)}),
        r"0.weight is \(8, 4, 1, 1\), not \(8, 3, 1, 1\)",
    ),
    "integers": ({}, broken(**{"0.bias": torch.ones(8).int()}), "of torch.int32, not"),
    "pooled": (
        {},
        prefixed(NONLocalBlock(8, over(1), pool=nn.MaxPool2d(2)).state_dict(), "1."),
        r"has key_pool=None, .*\(phi.0\) requires key_pool='after'",
    ),
    "not pooled": ({"key_pool": "after"}, theirs().state_dict(), "requires key_pool=None"),
    "no bias": ({"bias": False}, theirs().state_dict(), "make it with bias=True"),
    "no norm": ({"norm": False}, theirs().state_dict(), r"norm=False, but .* has one \(W.1\)"),
    "norm": (
        {},
        prefixed(NONLocalBlock(8, over(1), norm=False).state_dict(), "1."),
        "norm=True, but the one in the checkpoint has no norm",
    ),
    "video": ({}, prefixed(Nonlocal(8, over(1), None).state_dict(), "1."), r"\(4, 8, 1, 1, 1\)"),
    "width": ({"embed_channels": 8}, theirs().state_dict(), r"is \(4, 8, 1, 1\), not \(8, 8, 1"),
    "another network": (
        {},
        {f"layer{n}.weight": torch.ones(2) for n in range(9)},
        "not in the model: layer0.weight, .* and 4 more",
    ),
    "empty": ({}, {}, "contains no tensors"),
    "no tensors": ({}, {"epoch": 3, "config": {"a": 1}}, "it has epoch, config"),
    "a list": ({}, [1, 2], "is a list, not a state_dict"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.usefixtures("unchecked_shapes")
def test_what_does_not_fit_changes_nothing(name: str) -> None:
    """A sentence says what does not match, and the model is as it was."""
    options, checkpoint, sentence = BAD[name]
    model = ours(**options)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=f"(?s){sentence}"):
        scalednl.load_foreign_state_dict(model, checkpoint)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), key


def test_typing_errors_in_rename_are_noticed() -> None:
    """A prefix that no key has, and two keys that become one, are sentences."""
    with pytest.raises(ValueError, match="rename names backbone, but no key"):
        scalednl.load_foreign_state_dict(ours(), theirs().state_dict(), {"backbone": ""})
    state = {"a.0.weight": torch.ones(1), "0.weight": torch.ones(1)}
    with pytest.raises(ValueError, match="gives two tensors the name"):
        scalednl.load_foreign_state_dict(ours(), state, {"a": ""})


def test_a_bias_that_only_ours_has_is_zero() -> None:
    """A checkpoint without a bias on out, as mmcv writes it with a norm, loads exactly."""
    network = theirs()
    state = dict(network.state_dict())
    del state["1.W.0.bias"]
    network[1].W[0].bias.data.zero_()  # type: ignore[index, union-attr]
    model = ours()
    scalednl.load_foreign_state_dict(model, state)
    x = torch.randn(2, 3, 5, 6)
    assert_close(model(x), network(x), 1e-5)


def test_a_load_that_torch_refuses_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should torch fail after the checks, the weights that it had written are put back."""
    model = ours()
    before = copy.deepcopy(model.state_dict())
    failing = model[1].norm
    original = type(failing)._load_from_state_dict  # type: ignore[union-attr]
    calls = []

    def fail_once(self: nn.Module, *arguments: Any) -> None:
        calls.append(self)
        if len(calls) == 1:
            raise RuntimeError("broken")
        original(self, *arguments)

    monkeypatch.setattr(type(failing), "_load_from_state_dict", fail_once)
    with pytest.raises(RuntimeError, match="broken"):
        scalednl.load_foreign_state_dict(model, theirs().state_dict())
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), key


def test_our_own_names_load_too() -> None:
    """A checkpoint of a network that already has our blocks is loaded as it is."""
    source, model = randomise(ours()), ours()
    scalednl.load_foreign_state_dict(model, prefixed(dict(source.state_dict()), "module."))
    for key, value in model.state_dict().items():
        assert torch.equal(value, source.state_dict()[key])
