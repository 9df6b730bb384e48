"""A file alone rebuilds the network, or is refused with a sentence."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

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
    model.register_buffer("bad", torch.empty(2, device="meta"))
    with pytest.raises(Exception, match=r"(?i)meta|storage|data"):
        save_model(model, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["net.safetensors"]
    with pytest.raises(ValueError, match="nowhere is not a folder"):
        save_model(create_model("preresnet8", 5), tmp_path / "nowhere" / "net.safetensors")


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
