"""A file alone rebuilds the network, or is refused with a sentence."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from scalednl import NonLocalConfig, create_model, load_model, save_model


@pytest.mark.parametrize(
    ("config", "position"),
    [
        (None, None),
        (NonLocalConfig(attention="softmax", softmax_scale="learned", heads=2, blocks=1), False),
        (NonLocalConfig(embed_channels=8, norm_init=1.0), None),
        (NonLocalConfig(blocks=0), True),
    ],
)
def test_round_trip(config: NonLocalConfig | None, position: bool | None, tmp_path: Path) -> None:
    """The loaded network gives the same bits and knows its configuration."""
    model = create_model("preresnet14", 5, config, position).eval()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    save_model(model, tmp_path / "net.safetensors")
    loaded = load_model(tmp_path / "net.safetensors")
    assert loaded.config == model.config
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(loaded(x), model.to(memory_format=torch.contiguous_format)(x))  # type: ignore[call-overload]
    assert [path.name for path in tmp_path.iterdir()] == ["net.safetensors"]


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
    with pytest.raises(ValueError, match="is not there"):
        load_model(tmp_path / "other.safetensors")
    save_file({"weight": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="not the network they belong to"):
        load_model(path)
    for header, sentence in [
        ({"format": 99, "model": {}}, "its format is 99, and this version reads 1"),
        ({"format": 1, "model": {"name": "preresnet8", "classes": 3}}, "cannot be loaded"),
        ({"format": 1, "model": {"name": "preresnet8", "num_classes": 3}}, "Missing key"),
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
        save_model(torch.nn.Linear(2, 2), tmp_path / "x.safetensors")  # type: ignore[arg-type]
