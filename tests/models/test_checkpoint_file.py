"""Tensors in what training scripts save."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import scalednl
from scalednl.models.checkpoint_file import canonical, read_checkpoint, shared_prefix
from tests.models.test_checkpoint import ours, theirs

ONE = torch.ones(1)


@pytest.mark.parametrize(
    ("keys", "prefix"),
    [
        (["module.a.weight", "module.b"], "module."),
        (["module._orig_mod.module.a", "module._orig_mod.module.b"], "module._orig_mod.module."),
        (["module.a", "b"], ""),
        (["modules.a"], ""),
        ([], ""),
    ],
)
def test_only_what_all_keys_share_is_a_prefix(keys: list[str], prefix: str) -> None:
    """Wrappers may be nested; a module that is called so in some keys only is none."""
    assert shared_prefix(keys) == prefix
    assert canonical(f"{prefix}layer._orig_mod.weight", prefix) == "layer.weight"


@pytest.mark.parametrize(
    ("checkpoint", "value"),
    [
        ({"ema": {"a": 2 * ONE}, "model": {"a": ONE}}, 1),
        ({"ema": {"a": 2 * ONE}, "model": {}}, 2),
        ({"network": {"params": {"module.a": 3 * ONE}}, "a": ONE}, 3),
        ({"state_dict": {"epoch": 3}, "a": 4 * ONE, "lr": 0.1}, 4),
        ({"model": nn.ParameterDict({"a": 5 * ONE})}, 5),
    ],
)
def test_the_weights_are_found_where_they_are(checkpoint: Any, value: int) -> None:
    """Trained ones before averaged ones, the inner ones before the outer, numbers left out."""
    found = read_checkpoint(checkpoint)
    assert list(found) == ["a"]
    assert found["a"].item() == value


@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [
        ([ONE], "the checkpoint is a list, not a state_dict"),
        ({"epoch": 3, "loss": 0.1}, "it has epoch, loss; pass its state_dict"),
        ({}, "it has nothing; pass its state_dict"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_what_has_no_tensors_is_described(checkpoint: Any, said: str) -> None:
    """The sentence names what was found instead."""
    with pytest.raises(ValueError, match=said):
        read_checkpoint(checkpoint)


def test_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    """A text, a cut file, an object, a missing file: a sentence with the path."""
    torch.save(theirs().state_dict(), tmp_path / "good.pth")
    good = (tmp_path / "good.pth").read_bytes()
    (tmp_path / "cut.pth").write_bytes(good[: len(good) // 2])
    (tmp_path / "text.pth").write_text("<html>not found</html>")
    (tmp_path / "empty.pth").write_bytes(b"")
    (tmp_path / "text.safetensors").write_text("<html>not found</html>")
    torch.save(nn.Linear(2, 2), tmp_path / "module.pth")
    names = ["cut.pth", "text.pth", "empty.pth", "text.safetensors", "module.pth", "absent.pth"]
    for name in names:
        with pytest.raises(ValueError, match=name):
            scalednl.load_foreign_state_dict(ours(), tmp_path / name)
