"""Checkpoints: whole, checked, the last two kept, a damaged one passed over."""

import os
import shutil
from pathlib import Path

import pytest
import torch

from scalednl.errors import CommandError
from scalednl.files import sha256_of
from scalednl.lab.training import checkpoint
from scalednl.lab.training.checkpoint import load_checkpoint, newest_weights, save_checkpoint
from scalednl.models.registry import create_model
from scalednl.models.residual import ResidualNetwork
from tests.support import randomise, tiny_disk


def _saved(folder: Path, *steps: int) -> ResidualNetwork:
    model = randomise(create_model("preresnet8"))
    for step in steps:
        save_checkpoint(folder, step, model, {"progress": {"global_step": step}})
    return model


def test_the_newest_is_loaded_and_two_are_kept(tmp_path: Path) -> None:
    """Of four checkpoints the last two stay; weights and state come back as they were."""
    model = _saved(tmp_path, 5, 9, 12, 100)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000012", "00000100"]
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.state["progress"] == {"global_step": 100}
    for name, value in model.state_dict().items():
        assert torch.equal(found.weights[name], value)


def test_the_same_step_again_replaces_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the middle, the old one is still loaded; afterwards only the new one is there."""
    _saved(tmp_path, 7)
    rename, names = Path.rename, list[str]()

    def killed(path: Path, target: Path) -> Path:
        names.append(path.name)
        if len(names) == 2:
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(tmp_path, 7, create_model("preresnet8"), {"progress": "other"})
    assert names == ["00000007", ".00000007.part"]
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.state["progress"] == {"global_step": 7}
    save_checkpoint(tmp_path, 7, create_model("preresnet8"), {"progress": "other"})
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.state["progress"] == "other"
    assert [path.name for path in tmp_path.iterdir()] == ["00000007"]


@pytest.mark.parametrize("name", ["SHA256SUMS", "state.pt", "weights.safetensors"])
def test_a_pipe_in_the_place_of_a_file_is_damage(tmp_path: Path, name: str) -> None:
    """It is never waited for."""
    _saved(tmp_path, 1, 2)
    (tmp_path / "00000002" / name).unlink()
    os.mkfifo(tmp_path / "00000002" / name)
    (tmp_path / "²").mkdir()
    with pytest.warns(UserWarning, match="00000002 is damaged .* and skipped"):
        found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.path.name == "00000001"
    assert newest_weights(tmp_path) == tmp_path / "00000001" / "weights.safetensors"


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    """Neither an empty folder nor a missing one is an error."""
    assert load_checkpoint(tmp_path) is None
    assert load_checkpoint(tmp_path / "none") is None
    assert newest_weights(tmp_path) is None


@pytest.mark.parametrize("name", ["weights.safetensors", "state.pt", "SHA256SUMS"])
@pytest.mark.parametrize("damage", ["flip", "cut", "lose"])
def test_a_damaged_one_is_passed_over(tmp_path: Path, name: str, damage: str) -> None:
    """A flipped byte, a cut and a lost file are noticed; the one before is used, with a warning."""
    _saved(tmp_path, 1, 2)
    victim = tmp_path / "00000002" / name
    content = bytearray(victim.read_bytes())
    if damage == "lose":
        victim.unlink()
    else:
        content[len(content) // 2] ^= 1
        victim.write_bytes(content if damage == "flip" else content[: len(content) // 2])
    with pytest.warns(UserWarning, match="00000002 is damaged .* and skipped"):
        found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.state["progress"] == {"global_step": 1}
    assert newest_weights(tmp_path) == tmp_path / "00000001" / "weights.safetensors"


def test_a_state_of_another_kind_is_passed_over(tmp_path: Path) -> None:
    """A list with the right checksum is as damaged as any other file."""
    _saved(tmp_path, 1, 2)
    folder = tmp_path / "00000002"
    torch.save([1, 2], folder / "state.pt")
    sums = [f"{sha256_of(folder / name)}  {name}\n" for name in checkpoint.FILES]
    (folder / "SHA256SUMS").write_text("".join(sums))
    with pytest.warns(UserWarning, match="00000002 is damaged .its schema is None"):
        found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.path == tmp_path / "00000001"


def test_what_died_half_way_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that dies before its rename leaves the older ones as they were."""
    _saved(tmp_path, 1, 2)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "write_text", die)
    with pytest.raises(KeyboardInterrupt):
        _saved(tmp_path, 3)
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.state["progress"] == {"global_step": 2}


def test_a_full_disk_keeps_the_one_before(tmp_path: Path) -> None:
    """On a disk with room for one, the second fails in a sentence and the first is whole."""
    size = sum(path.stat().st_size for path in _folder_of_one(tmp_path).rglob("*"))
    with tiny_disk(tmp_path / "disk", f"{int(size * 1.6)}") as disk:
        _saved(disk, 1)
        with pytest.raises(CommandError, match="no checkpoint could be written"):
            _saved(disk, 2)
        assert [path.name for path in disk.iterdir()] == ["00000001"]
        assert newest_weights(disk) == disk / "00000001" / "weights.safetensors"


def _folder_of_one(tmp_path: Path) -> Path:
    folder = tmp_path / "sized"
    _saved(folder, 1)
    return folder


def test_state_is_loaded_without_trust(tmp_path: Path) -> None:
    """A state file that names a class is refused like any damage, even with a right checksum."""
    _saved(tmp_path, 1, 2)
    folder = tmp_path / "00000002"
    torch.save({"schema": 1, "evil": shutil.rmtree}, folder / "state.pt")
    sums = "".join(f"{sha256_of(folder / name)}  {name}\n" for name in checkpoint.FILES)
    (folder / "SHA256SUMS").write_text(sums)
    with pytest.warns(UserWarning, match="00000002 is damaged"):
        found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.state["progress"] == {"global_step": 1}
