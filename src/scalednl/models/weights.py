"""A network in one file: safetensors weights, and in their header how to make the network again."""

import errno
import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from scalednl.config import ModelConfig
from scalednl.files import replacing
from scalednl.models.registry import create_model
from scalednl.models.residual import ResidualNetwork

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
    # safetensors takes no channels_last tensors.
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    with replacing(path) as temporary:
        try:
            save_file(weights, temporary, metadata={KEY: header})
        except SafetensorError as error:
            code = errno.ENOSPC if "os error 28" in str(error) else errno.EIO
            raise OSError(code, os.strerror(code), str(path)) from error


def load_model(path: str | Path, device: str | torch.device = "cpu") -> ResidualNetwork:
    """The network in a file of `save_model`, in evaluation mode."""
    weights, config = read_weights(path, device)
    try:
        model = create_model(config.name, config.num_classes, config.nonlocal_, config.position)
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
            f"{path} is not a whole safetensors file ({error}): was its download cut off?"
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
