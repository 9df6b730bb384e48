"""Our writer of the safetensors format, held to what `safetensors` reads and writes."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from scalednl.safetensors_file import NAMES, open_tensors, save_tensors


def test_files_are_those_of_safetensors(tmp_path: Path) -> None:
    """Every dtype, scalars, empty and channels_last tensors: read back equal, of the same size."""
    generator = torch.Generator().manual_seed(0)
    tensors = {
        f"{dtype}/{shape}": torch.randint(0, 2, shape, generator=generator).to(dtype)
        for dtype in NAMES
        for shape in ((), (0, 3), (7,), (2, 3, 5))
    }
    tensors["image"] = torch.randn(2, 3, 4, 5, generator=generator).to(
        memory_format=torch.channels_last
    )
    save_tensors(tensors, tmp_path / "ours", {"key": 'a "value" é'})
    read = load_file(tmp_path / "ours")
    assert read.keys() == tensors.keys()
    for name, value in tensors.items():
        assert read[name].dtype == value.dtype
        assert torch.equal(read[name], value), name
    dense = {name: value.contiguous() for name, value in tensors.items()}
    save_file(dense, tmp_path / "theirs", metadata={"key": 'a "value" é'})
    assert abs((tmp_path / "theirs").stat().st_size - (tmp_path / "ours").stat().st_size) < 64
    with safe_open(tmp_path / "ours", framework="pt") as file:
        assert file.metadata() == {"key": 'a "value" é'}


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n" + bytes(99), b"PK\3\4" + bytes(99)])
def test_other_files_were_not_cut_off(content: bytes, tmp_path: Path) -> None:
    """A picture or an archive is called another kind of file; one that was cut is asked about."""
    (tmp_path / "other").write_bytes(content)
    with (
        pytest.raises(ValueError, match=r"other is another kind of file, not a complete"),
        open_tensors(tmp_path / "other"),
    ):
        pass
    save_tensors({"x": torch.zeros(9)}, tmp_path / "cut", {})
    (tmp_path / "cut").write_bytes((tmp_path / "cut").read_bytes()[:-1])
    with (
        pytest.raises(ValueError, match=r"was its download cut off"),
        open_tensors(tmp_path / "cut"),
    ):
        pass
