"""Insertion into small networks of every shape, and its refusals."""

import copy
import pickle
import re

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl import BlockConfig
from scalednl.models import insert
from tests.models.hosts import EXAMPLE, Branches


def _sequential() -> nn.Sequential:
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()),
        nn.Sequential(nn.Conv2d(8, 16, 3, 2, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 4),
    )


def _size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def _list(output: "Tensor | dict[str, Tensor]") -> list[Tensor]:
    return list(output.values()) if isinstance(output, dict) else [output]


@pytest.mark.parametrize(
    ("make", "at", "calls"),
    [
        (_sequential, "1", 1),
        (_sequential, ["0", "1.0"], 1),
        (_sequential, (8, 6), 1),
        (Branches, "down", 1),
        (Branches, "shared", 2),
        (Branches, ["stem", "down"], 1),
        (Branches, (8, 6), 1),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_inserted_blocks_do_nothing_at_first_and_can_learn(
    make: "type[nn.Module]", at: "str | list[str] | tuple[int, int]", calls: int
) -> None:
    """Outputs stay equal, new weights get gradient, copies and pickles keep the blocks."""
    original = make()
    model, report = scalednl.insert_nonlocal(copy.deepcopy(original), at, 2, example=EXAMPLE)
    assert report.insertions[0].calls == calls
    assert report.parameters == _size(model) - _size(original) > 0
    truth = original.eval()(EXAMPLE)
    for candidate in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        found = candidate.eval()(EXAMPLE)
        assert all(torch.equal(a, b) for a, b in zip(_list(truth), _list(found), strict=True))
    state = copy.deepcopy(original).state_dict()
    missing = model.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys
    for module in model.modules():
        if isinstance(module, scalednl.NonLocal2d):
            assert module.norm is not None
            nn.init.ones_(module.norm.weight)  # type: ignore[arg-type]
    assert not torch.equal(_list(model(EXAMPLE))[0], _list(truth)[0])


def test_training_state_and_statistics_are_left_alone() -> None:
    """The checks leave modes, running statistics and existing weights as they were."""
    model = _sequential().train()
    model[1].eval()
    before = copy.deepcopy(model.state_dict())
    scalednl.insert_nonlocal(model, "0", example=EXAMPLE)
    assert model.training
    assert not model[1].training
    assert all(torch.equal(model.state_dict()[key], value) for key, value in before.items())
    assert all(p.grad is None for p in model.parameters())


def test_other_dtypes_and_configs() -> None:
    """Blocks take the model's dtype; with gamma 1 or position the output is not compared."""
    model, report = scalednl.insert_nonlocal(
        _sequential().double(),
        "1",
        block=BlockConfig(attention="softmax", norm_init=1.0, heads=2),
        position=True,
        example=EXAMPLE.double(),
    )
    assert not report.unchanged
    assert "not compared" in str(report)
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert isinstance(model.get_submodule("1.nonlocal_.position"), scalednl.SinusoidalPosition2d)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_blocks_take_the_dtype_of_the_features(dtype: torch.dtype) -> None:
    """In half and double precision; the caller's autocast and no_grad do not matter."""
    example = EXAMPLE.to(dtype)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        model, report = scalednl.insert_nonlocal(_sequential().to(dtype), "1", example=example)
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert report.unchanged


def test_networks_on_the_meta_device() -> None:
    """Shapes and gradients are checked; there are no values to compare."""
    model, report = scalednl.insert_nonlocal(_sequential().to("meta"), "1")
    assert all(p.is_meta for p in model.parameters())
    assert report.checks is not None
    assert report.checks.difference is None


@pytest.mark.filterwarnings("ignore")
def test_scripted_parts_take_no_blocks() -> None:
    """Blocks go behind other modules of such a network, and the scripted part is refused."""
    # Traced, not scripted: torch's script compiler depends on what the process did before.
    scripted = torch.jit.trace(nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8)), EXAMPLE)
    model = nn.Sequential(scripted, nn.ReLU())
    with pytest.raises(ValueError, match="'0' is a ScriptModule, which cannot be changed"):
        scalednl.insert_nonlocal(model, "0", example=EXAMPLE)
    with pytest.raises(ValueError, match=r"model is a ScriptModule.*insert before scripting"):
        scalednl.insert_nonlocal(scripted, "0", example=EXAMPLE)
    _, report = scalednl.insert_nonlocal(model, "1", example=EXAMPLE)
    assert report.unchanged


def test_an_example_is_guessed_for_images() -> None:
    """Without an example, random images of the first convolution's channels are tried."""
    _, report = scalednl.insert_nonlocal(_sequential(), "1")
    assert report.insertions[0].space == (112, 112)


def test_one_image_is_example_enough() -> None:
    """A model whose own batch norm cannot train on one value takes an example of one image."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(8), nn.Flatten()
    )
    config = BlockConfig(attention="softmax", bias=True)
    _, report = scalednl.insert_nonlocal(model, "0", block=config, example=EXAMPLE[:1])
    assert report.unchanged


class Dropping(nn.Module):
    """A network whose output does not depend on one of its modules."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Conv2d(3, 4, 1)
        self.lost = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The used part."""
        x = self.used(x)
        self.lost(x)
        return x


def test_several_places_each_with_its_count() -> None:
    """A mapping gives every path or size its own number of blocks; a list gives all the same."""
    _, report = scalednl.insert_nonlocal(Branches(), {"stem": 2, (8, 6): 1}, example=EXAMPLE)
    assert [(i.path, i.count) for i in report.insertions] == [("stem", 2), ("down", 1)]
    _, report = scalednl.insert_nonlocal(Branches(), [(16, 12), "down"], 3, example=EXAMPLE)
    assert [(i.path, i.count) for i in report.insertions] == [("shared", 3), ("down", 3)]


def test_unchecked_insertion_still_counts_calls() -> None:
    """check=False skips outputs and gradients, and the report says so."""
    _, report = scalednl.insert_nonlocal(Dropping(), "lost", example=EXAMPLE, check=False)
    assert report.checks is None
    assert not report.unchanged
    assert str(report).endswith("each stack runs once per call; nothing else, by check=False")


def test_blocks_follow_the_mode_of_their_module() -> None:
    """A network in evaluation mode is in evaluation mode with its new blocks."""
    model, _ = scalednl.insert_nonlocal(Branches().eval(), "stem", example=EXAMPLE)
    assert not any(module.training for module in model.modules())


@pytest.mark.parametrize(
    ("make", "options", "sentence"),
    [
        (Branches, {"at": "layer2"}, "no module at 'layer2': there are "),
        (
            Branches,
            {"at": "shared", "block": {"heads": 2}},
            "block must be a scalednl.BlockConfig.* got a dict",
        ),
        (Branches, {"at": "shard"}, "no module at 'shard'; did you mean 'shared'"),
        (Branches, {"at": ""}, "at='' is the model, not a module in it: there are stem"),
        (Branches, {"at": "unused"}, "never calls 'unused' .*in evaluation mode"),
        (Branches, {"at": "head"}, r"'head' \(Linear\) gives a tensor of shape \(2, 4\)"),
        (Branches, {"at": "pair"}, r"'pair' \(Pair\) gives a tuple of a tensor of .* \(2, 16\)"),
        (Branches, {"at": "relu"}, r"'relu' .*neither the second nor the last axis has the same"),
        (Branches, {"at": 7}, r"no module gives maps of \(7, 7\): the sizes seen are \[\(16, 12\)"),
        (Branches, {"at": []}, r"at=\[\] is not a module path"),
        (Branches, {"at": [["stem"]]}, r"at=\[\['stem'\]\] is not a module path"),
        (Branches, {"at": True}, "at=True is not a module path"),
        (Branches, {"at": {}}, r"at=\{\} is not a module path"),
        (Branches, {"at": "stem", "count": 0}, "count must be at least 1, got 0 at 'stem'"),
        (Branches, {"at": {"stem": True}}, "count must be at least 1, got True at 'stem'"),
        (Branches, {"at": "stem", "count": -1, "position": True}, "at least 0 .*got -1"),
        (
            Branches,
            {"at": "stem", "block": BlockConfig(heads=3)},
            "'stem' gives 8 channels: heads=3 does not divide",
        ),
        (
            Branches,
            {"at": "stem", "block": BlockConfig(init=0.0)},
            "stem.nonlocal_.0.theta.weight receives no gradient .init=0.0 makes a dead block",
        ),
        (Dropping, {"at": "lost"}, "behind 'lost' cannot learn: .* does not depend on it"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:init=0.0 makes a dead block")
@pytest.mark.usefixtures("unchecked_shapes")
def test_refusals_leave_the_model_alone(
    make: "type[nn.Module]", options: dict[str, object], sentence: str
) -> None:
    """Whatever is wrong is named, and the model is as it was."""
    model = make()
    names = list(model.state_dict())
    with pytest.raises((ValueError, RuntimeError), match=sentence):
        scalednl.insert_nonlocal(model, example=EXAMPLE, **options)  # type: ignore[arg-type]
    assert list(model.state_dict()) == names
    assert not any(module._forward_hooks for module in model.modules())


def test_twice_in_one_place_is_refused() -> None:
    """A second stack behind the same module is refused; behind another it is fine."""
    model, _ = scalednl.insert_nonlocal(Branches(), "stem", example=EXAMPLE)
    with pytest.raises(ValueError, match="'stem' has non-local blocks already"):
        scalednl.insert_nonlocal(model, "stem", example=EXAMPLE)
    scalednl.insert_nonlocal(model, "down", example=EXAMPLE)


def test_models_without_a_convolution_need_an_example() -> None:
    """Where the input cannot be guessed, the error asks for an example."""
    with pytest.raises(ValueError, match=r"Linear has no convolution to guess.*example="):
        scalednl.insert_nonlocal(nn.Linear(3, 3), "x")
    strict = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(40, 2))
    with pytest.raises(ValueError, match=r"does not run on random inputs.*pass example="):
        scalednl.insert_nonlocal(strict, "0")


def test_a_large_example_runs_once() -> None:
    """All trials but the first use a small input: insertion costs one pass of the example."""
    model, sizes = _sequential(), []
    handle = model.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].numel()))
    example = torch.randn(8, 3, 256, 192)
    scalednl.insert_nonlocal(model, ["0", "1"], example=example)
    handle.remove()
    assert sizes.count(example.numel()) == 1
    assert len(sizes) > 4
    assert sorted(sizes)[-2] <= example.numel() / 8


@pytest.mark.parametrize(
    ("check", "end"), [(True, "; check=False leaves most of them out"), (False, "")]
)
def test_slow_trials_are_announced(
    check: bool, end: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the seconds before slow trials begin; quick ones begin without a word."""
    scalednl.insert_nonlocal(_sequential(), "1", example=EXAMPLE, check=check)
    assert caplog.messages == []
    monkeypatch.setattr(insert, "SLOW", 0.0)
    scalednl.insert_nonlocal(_sequential(), "1", example=EXAMPLE, check=check)
    (said,) = caplog.messages
    assert re.fullmatch(
        rf"insert_nonlocal runs the model on trial inputs for about \d+ s{end}", said
    )
