"""Networks are opened with the same images for all, or refused with a reason."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import scalednl
from scalednl.errors import CommandError, UsageError
from scalednl.lab.attention.record import record_run
from scalednl.lab.attention.source import chosen_images, open_source
from scalednl.lab.records.run import RunFolder
from tests.lab.attention.builders import made_run


def test_all_runs_show_the_same_images(tmp_path: Path) -> None:
    """Images depend on the data alone, not on block or seed; the first of each class come first."""
    first, second = (
        [
            picture.index
            for picture in open_source(made_run(tmp_path / name, attention=name)).pictures
        ]
        for name in ("scaled", "softmax")
    )
    assert first == second
    assert chosen_images(np.array([2, 2, 0, 1, 0, 2]), 5) == [2, 3, 0, 4, 1]


def test_networks_with_nothing_to_show(tmp_path: Path) -> None:
    """One without blocks, and one that computes NaN, are sentences."""
    with pytest.raises(CommandError, match=r"has nothing to show: .*no non-local block"):
        record_run(made_run(tmp_path / "plain", blocks=0))
    path = made_run(tmp_path / "run")
    model = scalednl.load_model(RunFolder(path).weights)
    torch.nn.init.constant_(model.get_parameter("stem.weight"), torch.nan)
    scalednl.save_model(model, RunFolder(path).weights)
    with pytest.raises(CommandError, match="run computes numbers that are not finite"):
        record_run(path)


def _note(path: Path, photo: Path, **options: Any) -> str:
    (picture,) = open_source(path, photos=[photo], **options).pictures
    return picture.notes[-1]


def test_photos_have_the_size_of_the_training_images(tmp_path: Path) -> None:
    """By default that of the run's images or of the data set that is named; --resize decides."""
    run, photo = made_run(tmp_path / "run"), tmp_path / "photo.png"
    Image.new("RGB", (400, 300)).save(photo)
    weights = RunFolder(run).weights
    shown = "shown to the network as"
    trained = "because it was trained on"
    assert _note(run, photo).startswith(f"{shown} 21 x 16 pixels, {trained} 16 x 16")
    warned = f"{shown} 80 x 60 pixels, but it was trained on 16 x 16: its classes may mean little"
    assert _note(run, photo, resize=60) == warned
    assert _note(run, photo, resize=16) == f"{shown} 21 x 16 pixels"
    assert _note(weights, photo, resize=60) == f"{shown} 80 x 60 pixels"
    assert _note(weights, photo).startswith(f"{shown} 43 x 32 pixels, as CIFAR-10 has")
    assert _note(weights, photo, data="tiny-imagenet").startswith(f"{shown} 75 x 56 pixels")
    with pytest.raises(CommandError, match="trained on 4 classes, but tiny-imagenet has 200"):
        open_source(run, photos=[photo], data="tiny-imagenet")
    with pytest.raises(UsageError, match="--resize must be at least 8, got 4"):
        open_source(run, photos=[photo], resize=4)
    with pytest.raises(UsageError, match="--resize 60 is for photos: add --image PHOTO"):
        open_source(run, resize=60)


def test_a_picture_is_no_network(tmp_path: Path) -> None:
    """One sentence with the command that was meant."""
    photo = tmp_path / "photo.png"
    Image.new("RGB", (40, 30)).save(photo)
    with pytest.raises(UsageError, match=r"photo.png is a picture, not a network: .*--image"):
        open_source(photo)
