"""A file alone rebuilds the network, or is refused with a sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import scalednl
from scalednl import BlockConfig, ModelConfig, StackConfig, create_model, load_model, save_model


@pytest.mark.parametrize(
    ("config", "position"),
    [
        (None, None),
        (
            StackConfig(
                BlockConfig(attention="softmax", softmax_scale="learned", heads=2), count=1
            ),
            False,
        ),
        (StackConfig(BlockConfig(embed_channels=8, norm_init=1.0)), None),
        (StackConfig(BlockConfig(key_pool="after", key_pool_size=(3, 2), norm_init=1.0)), None),
        (StackConfig(count=0), True),
    ],
)
def test_round_trip(config: StackConfig | None, position: bool | None, tmp_path: Path) -> None:
    """The loaded network gives the same bits and knows its configuration."""
    model = create_model("preresnet14", 5, config, position).eval()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    save_model(model, tmp_path / "net.safetensors")
    loaded = load_model(tmp_path / "net.safetensors")
    assert loaded.config == model.config
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(loaded(x), model.to(memory_format=torch.contiguous_format)(x))  # type: ignore[call-overload]
    assert [path.name for path in tmp_path.iterdir()] == ["net.safetensors"]


def test_dropout_is_saved(tmp_path: Path) -> None:
    """A loaded network drops as the saved one did, and nothing in evaluation."""
    model = create_model("wrn10_1", 5, dropout=0.3)
    save_model(model, tmp_path / "net.safetensors")
    loaded = load_model(tmp_path / "net.safetensors")
    assert loaded.config == model.config
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(loaded(x), model.eval()(x))
    found = []
    for network in (model.train(), loaded.train()):
        torch.manual_seed(1)
        found.append(network(x))
    assert torch.equal(*found)


@pytest.mark.parametrize("bias", [False, ["theta", "g"]])
def test_files_of_the_first_format_are_read(bias: bool | list[str], tmp_path: Path) -> None:
    """Block options, number and stage under `nonlocal_` give the network that was saved."""
    block = BlockConfig(heads=2, bias=tuple(bias) if isinstance(bias, list) else bias)
    model = create_model("preresnet8", 5, StackConfig(block, count=1, stage=3), True).eval()
    options = {
        "attention": "scaled",
        "view": "base",
        "heads": 2,
        "embed_channels": None,
        "init": None,
        "order": "auto",
        "bias": bias,
        "norm": True,
        "norm_init": 0.0,
        "scale": True,
        "softmax_scale": "embed",
        "key_pool": None,
        "memory": "auto",
        "blocks": 1,
        "stage": 3,
    }
    values = {"name": "preresnet8", "num_classes": 5, "nonlocal_": options, "position": True}
    header = json.dumps({"format": 1, "model": values})
    path = tmp_path / "old.safetensors"
    save_file(model.state_dict(), path, metadata={"scalednl": header})
    loaded = load_model(path)
    assert loaded.config == model.config
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(loaded(x), model(x))
    plain = {"name": "preresnet8", "num_classes": 5, "nonlocal_": None, "position": None}
    assert ModelConfig.from_dict(plain) == create_model("preresnet8", 5).config
    with pytest.raises(TypeError, match="colour"):
        ModelConfig.from_dict({**values, "nonlocal_": {"colour": 3}})


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    """Truncated, missing, headerless, newer and mismatched files: each gets its sentence."""
    path = tmp_path / "net.safetensors"
    save_model(create_model("preresnet8", 5), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a complete safetensors file"):
        load_model(path)
    path.write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(ValueError, match="not a complete safetensors file"):
        load_model(path)
    with pytest.raises(ValueError, match=r"other.safetensors does not exist"):
        load_model(tmp_path / "other.safetensors")
    save_file({"weight": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="not the network they belong to"):
        load_model(path)
    for header, sentence in [
        ({"format": 99, "model": {}}, "its format is 99, and this version reads 1"),
        ({"format": 1, "model": {"name": "preresnet8", "classes": 3}}, "cannot be loaded"),
        (
            {"format": 1, "model": {"name": "preresnet8", "num_classes": 3}},
            "has 1 tensors of 2 numbers",
        ),
        ({"format": 1}, "cannot be loaded"),
    ]:
        save_file({"weight": torch.ones(2)}, path, metadata={"scalednl": json.dumps(header)})
        with pytest.raises(ValueError, match=sentence):
            load_model(path)


def test_saving_is_all_or_nothing(tmp_path: Path) -> None:
    """A save that fails leaves the earlier file as it was and nothing half-written."""
    path = tmp_path / "net.safetensors"
    model = create_model("preresnet8", 5)
    save_model(model, path)
    before = path.read_bytes()
    model.classifier.bias = torch.nn.Parameter(torch.empty(5, device="meta"))
    with pytest.raises(Exception, match=r"(?i)meta|storage|data"):
        save_model(model, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["net.safetensors"]
    with pytest.raises(ValueError, match="nowhere is not a folder"):
        save_model(create_model("preresnet8", 5), tmp_path / "nowhere" / "net.safetensors")
    with pytest.raises(ValueError, match="is a folder: name a file"):
        save_model(create_model("preresnet8", 5), tmp_path)


def test_a_network_that_was_changed_is_not_saved(tmp_path: Path) -> None:
    """What load_model could not make again is refused when it is saved, not when it is loaded."""
    path = tmp_path / "net.safetensors"
    inserted = create_model("preresnet8")
    scalednl.insert_nonlocal(inserted, "stages.0.0", example=torch.randn(1, 3, 16, 16))
    classifier = create_model("preresnet8")
    classifier.classifier = torch.nn.Linear(64, 3)
    for model, name in ((inserted, "stages.0.0.nonlocal_"), (classifier, "classifier.bias is")):
        with pytest.raises(ValueError, match=rf"no longer the preresnet8 .*{name}.* state_dict"):
            save_model(model, path)
    assert not path.exists()


def _with_heads(model: Any) -> None:
    model.stack[-1] = _like(model.stack[-1], heads=8)


def _with_softmax(model: Any) -> None:
    model.stack[-1] = _like(model.stack[-1], attention="softmax")


def _without_position(model: Any) -> None:
    model.stack = model.stack[1:]


def _with_eps(model: Any) -> None:
    model.stack[-1].norm.eps = 1.0


def _with_stride(model: Any) -> None:
    next(one for one in model.modules() if isinstance(one, nn.Conv2d)).stride = (2, 2)


class _Doubled(scalednl.NonLocal2d):
    """The same tensors, another function."""

    def forward(self, x: Any, **_: Any) -> Any:
        """Twice the input."""
        return 2 * x


def _with_subclass(model: Any) -> None:
    block = model.stack[-1]
    model.stack[-1] = _Doubled(block.channels)
    model.stack[-1].load_state_dict(block.state_dict())


def _with_position_last(model: Any) -> None:
    parts = model.stack._modules
    first = next(iter(parts))
    parts[first] = parts.pop(first)


def _with_shared_activation(model: Any) -> None:
    unit = next(one for one in model.modules() if hasattr(one, "shared_activation"))
    unit.shared_activation = not unit.shared_activation


def _like(block: Any, **options: Any) -> nn.Module:
    other = scalednl.NonLocal2d(block.channels, **options)
    other.load_state_dict(block.state_dict())
    return other


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_with_heads, r"stack\.0\.heads is 8 instead of 4"),
        (_with_softmax, r"stack\.0\.attention is softmax instead of scaled"),
        (_without_position, r"stack\.position is missing instead of a SinusoidalPosition2d"),
        (_with_eps, r"stack\.0\.norm\.eps is 1\.0 instead of 1e-05"),
        (_with_stride, r"\.stride is \(2, 2\) instead of \(1, 1\)"),
        (_with_subclass, r"stack\.0 is a _Doubled instead of a NonLocal2d"),
        (
            _with_position_last,
            r"stack is in the order 0, position instead of in the order position, 0",
        ),
        (_with_shared_activation, r"shared_activation is (True|False) instead of"),
    ],
)
def test_a_network_that_uses_the_same_tensors_otherwise_is_not_saved(
    change: Callable[[Any], None], said: str, tmp_path: Path
) -> None:
    """Its file would make another function; what computes the same is saved."""
    model = scalednl.create_model("preresnet8", blocks=scalednl.StackConfig(count=1))
    change(model)
    with pytest.raises(ValueError, match=said):
        scalednl.save_model(model, tmp_path / "net.safetensors")
    same = scalednl.create_model("preresnet8", blocks=scalednl.StackConfig(count=1))
    same = nn.SyncBatchNorm.convert_sync_batchnorm(same)
    for block in same.modules():
        if isinstance(block, scalednl.NonLocal2d):
            block.order, block.memory = "associative", "lean"
        if isinstance(block, nn.BatchNorm2d):
            block.momentum = 0.01
    scalednl.save_model(same, tmp_path / "net.safetensors")


def test_a_whole_number_of_pixels_becomes_a_mean_again(tmp_path: Path) -> None:
    """Older files have an integer, in which a running mean would be rounded at every step."""
    block = BlockConfig(reference_pixels="running")
    model = create_model("preresnet8", blocks=StackConfig(block, count=1))
    (own,) = (one for one in model.modules() if isinstance(one, scalednl.NonLocal2d))
    own.running_pixels = torch.tensor(256)
    save_model(model, tmp_path / "net.safetensors")
    found = load_model(tmp_path / "net.safetensors")
    (block_found,) = (one for one in found.modules() if isinstance(one, scalednl.NonLocal2d))
    assert block_found.running_pixels is not None
    assert block_found.running_pixels.dtype == torch.float32
    assert block_found.running_pixels.item() == 256


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_device_that_is_not_there_is_named() -> None:
    """Beside one that torch has never heard of."""
    for device in ("cuda", "abacus"):
        with pytest.raises(ValueError, match=f"device='{device}' (cannot be used|is unknown): "):
            load_model("cifar10-preresnet20-plain", device)


def test_dtypes_without_a_name_in_the_format_are_refused(tmp_path: Path) -> None:
    """By the tensor's name, before a file is written."""
    model = create_model("preresnet8", 5)
    model.classifier.bias = nn.Parameter(torch.zeros(5, dtype=torch.complex64))
    with pytest.raises(ValueError, match=r"classifier\.bias is torch\.complex64, which cannot be"):
        save_model(model, tmp_path / "net.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_dtypes_stay(dtype: torch.dtype, tmp_path: Path) -> None:
    """A network comes back with the dtype and the numbers that it was saved with."""
    model = create_model("preresnet8", blocks=StackConfig(count=1)).to(dtype)
    save_model(model, tmp_path / "net.safetensors")
    found = load_model(tmp_path / "net.safetensors")
    for name, value in model.state_dict().items():
        assert found.state_dict()[name].dtype == value.dtype
        assert torch.equal(found.state_dict()[name], value)
    assert all(p.requires_grad for p in found.parameters())


def test_a_loaded_network_does_not_need_its_file(tmp_path: Path) -> None:
    """Its tensors are copies: the file may be replaced, overwritten or deleted."""
    path = tmp_path / "net.safetensors"
    save_model(create_model("preresnet8").double(), path)
    found = load_model(path)
    before = {name: value.clone() for name, value in found.state_dict().items()}
    path.write_bytes(bytes(path.stat().st_size))
    assert all(torch.equal(value, before[name]) for name, value in found.state_dict().items())


def test_an_unknown_device_is_named(tmp_path: Path) -> None:
    """It is not taken for a damaged file; the meta device is one like others."""
    path = tmp_path / "net.safetensors"
    save_model(create_model("preresnet8"), path)
    with pytest.raises(ValueError, match="device='gpu' is unknown"):
        load_model(path, "gpu")
    assert all(p.is_meta for p in load_model(path, "meta").parameters())


@pytest.mark.usefixtures("unchecked_shapes")
def test_other_modules_are_refused(tmp_path: Path) -> None:
    """A module that create_model did not make cannot be rebuilt from a file."""
    with pytest.raises(ValueError, match="Linear was not made by create_model"):
        save_model(torch.nn.Linear(2, 2), tmp_path / "x.safetensors")
    for config in ({"hidden_size": 8}, object()):
        foreign = torch.nn.Linear(2, 2)
        foreign.config = config  # type: ignore[assignment]
        with pytest.raises(ValueError, match="Linear was not made by create_model"):
            save_model(foreign, tmp_path / "x.safetensors")
