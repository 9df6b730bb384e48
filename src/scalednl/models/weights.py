"""A network in one file: safetensors weights, and in their header how to make the network again."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from scalednl.config import ModelConfig
from scalednl.files import replacing
from scalednl.models.registry import create_model
from scalednl.models.residual import ResidualNetwork
from scalednl.safetensors_file import save_tensors

KEY = "scalednl"
FORMAT = 1


def save_model(model: ResidualNetwork, path: str | Path) -> None:
    """Write a network of `create_model` to a file, whole or not at all."""
    if getattr(model, "config", None) is None:
        raise ValueError(
            f"{type(model).__name__} was not made by create_model, so a file could not say how to "
            "make it again: save its state_dict instead"
        )
    assert model.config is not None
    path = Path(path)
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is not a folder: make it first")
    header = json.dumps({"format": FORMAT, "model": model.config.as_dict()})
    with replacing(path) as temporary:
        save_tensors(model.state_dict(), temporary, {KEY: header})


def load_model(path: str | Path, device: str | torch.device = "cpu") -> ResidualNetwork:
    """The network in a file of `save_model`, in evaluation mode."""
    weights, config = read_weights(path, device)
    try:
        model = create_model(
            config.name, config.num_classes, config.blocks, config.position, config.dropout
        )
        model.to(device).load_state_dict(weights)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} cannot be loaded: {error}") from error
    return model.eval()


def read_weights(
    path: str | Path, device: str | torch.device = "cpu"
) -> tuple[dict[str, Tensor], ModelConfig]:
    """The tensors in a file of `save_model`, and the network that they belong to."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} is not there")
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            header = (file.metadata() or {}).get(KEY)
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a complete safetensors file ({error}): was its download cut off?"
        ) from None
    if header is None:
        raise ValueError(
            f"{path} holds weights but not the network they belong to: load_model takes files of "
            "save_model; use load_state_dict for others"
        )
    try:
        found = json.loads(header)
        if found["format"] != FORMAT:
            raise ValueError(f"its format is {found['format']}, and this version reads {FORMAT}")
        return weights, ModelConfig.from_dict(found["model"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be loaded: {error}") from error
