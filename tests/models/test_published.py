"""Trained networks that come with the package are found by name."""

from pathlib import Path

import pytest
import torch

from scalednl import create_model, list_weights, load_model, save_model
from scalednl.models import published
from scalednl.models.foreign_network import config_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one network, `some-net`, and an empty current folder."""
    (tmp_path / "weights" / "some-net").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    save_model(create_model("preresnet8", 5), tmp_path / "weights/some-net/weights.safetensors")
    monkeypatch.setattr(published, "FOLDER", tmp_path / "weights")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "weights"


def test_a_name_loads_the_network(folder: Path) -> None:
    """By name and by path it is the same network; folders being written do not count."""
    (folder / ".other.part").mkdir()
    (folder / ".other.part" / "weights.safetensors").touch()
    assert list_weights() == ["some-net"]
    by_name = load_model("some-net")
    by_path = load_model(folder / "some-net" / "weights.safetensors")
    assert by_name.config == by_path.config
    assert not by_name.training
    for name, value in by_name.state_dict().items():
        assert torch.equal(value, by_path.state_dict()[name]), name


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_path_that_exists_wins(folder: Path, is_folder: bool) -> None:
    """A file, or a run directory, of the same name is what is loaded."""
    assert folder.is_dir()
    place = Path("some-net") / "weights.safetensors" if is_folder else Path("some-net")
    place.parent.mkdir(exist_ok=True)
    save_model(create_model("preresnet8", 3), place)
    config = config_of(load_model("some-net"))
    assert config is not None
    assert config.num_classes == 3
    place.unlink()
    if is_folder:
        with pytest.raises(ValueError, match=r"some-net.weights.safetensors is not a file"):
            load_model("some-net")


def test_unknown_names_get_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typo gets a suggestion, other names the list; paths only that they do not exist."""
    with pytest.raises(
        ValueError, match=r"^some-nat does not exist, .* name; did you mean 'some-net'\?$"
    ):
        load_model("some-nat")
    with pytest.raises(ValueError, match=r"has no weights of that name: there are some-net$"):
        load_model("xyz")
    for path in ("some-net.safetensors", "runs/some-net", "../weights/none"):
        with pytest.raises(ValueError, match=f"^{path} does not exist$"):
            load_model(path)
    (folder / "some-net" / "weights.safetensors").unlink()
    with pytest.raises(ValueError, match=r"has lost its weights.safetensors: install scalednl"):
        load_model("some-net")
    assert list_weights() == []
    monkeypatch.setattr(published, "FOLDER", folder / "nowhere")
    assert list_weights() == []
    with pytest.raises(ValueError, match="has no weights of that name: it comes with none"):
        load_model("some-net")
