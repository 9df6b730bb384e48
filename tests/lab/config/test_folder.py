"""Options of a folder of images, and the names that follow from its path."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.errors import UsageError
from scalednl.lab.config import Experiment, FolderConfig
from scalednl.lab.config.folder import FolderFacts, folder_path, is_folder, short_name

FOUND = FolderFacts("0123456789ab", 3, 90, 10, (0.5, 0.4, 0.3), (0.2, 0.2, 0.1))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"side": 4}, "--folder.side must be in 8 to 1024, got 4"),
        ({"side": 5000}, "--folder.side must be in 8 to 1024, got 5000"),
        ({"held_out": 0}, "--folder.held-out must be more than 0 and less than 1, got 0"),
        ({"held_out": float("nan")}, "must be more than 0 and less than 1, got nan"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, float], said: str) -> None:
    """The option and its range are named."""
    with pytest.raises(UsageError, match=said):
        FolderConfig(**options)  # type: ignore[arg-type]


def test_small_images_are_padded_and_large_ones_resized() -> None:
    """Up to 48 pixels as CIFAR, above as Tiny-ImageNet, unless the option says otherwise."""
    assert not FolderConfig(side=48).is_resized
    assert FolderConfig(side=49).is_resized
    assert not FolderConfig(side=64, augmentation="padded").is_resized
    assert FolderConfig(side=32, augmentation="resized").is_resized


def test_facts_are_those_of_the_images() -> None:
    """Networks see images of the side; the name has letters of the content, not the path."""
    facts = FolderConfig(side=32, found=FOUND).facts("folder:/some/where/My pets!")
    assert facts.name == "folder:My-pets-012345"
    assert (facts.side, facts.crop_side, facts.input_side) == (32, None, 32)
    assert (facts.classes, facts.train_images, facts.mean) == (3, 90, FOUND.mean)
    assert not facts.is_generated
    assert FolderConfig().facts("folder:pets").crop_side == 64


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data/pets/", "pets"),
        ("/data/été 2026", "t-2026"),
        ("/", "images"),
        ("/data/" + "x" * 99, "x" * 40),
        ("/data/..", "images"),
    ],
)
def test_a_short_name_is_a_good_name_of_a_folder(path: str, name: str) -> None:
    """Letters, digits, dots and dashes, never empty, never hidden."""
    assert short_name(f"folder:{path}") == name


def test_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """The home folder is understood; an empty path and one that no record can hold are not."""
    monkeypatch.setenv("HOME", "/home/me")
    assert folder_path("folder:~/pets") == Path("/home/me/pets")
    assert is_folder("folder:pets")
    assert not is_folder("cifar10")
    with pytest.raises(UsageError, match="folder: must name a folder"):
        Experiment(data="folder:")
    with pytest.raises(UsageError, match="cannot be recorded: rename the folder"):
        Experiment(data="folder:" + os.fsdecode(b"caf\xe9"))


def _on(path: str, **options: object) -> Experiment:
    folder = replace(FolderConfig(found=FOUND), **options)  # type: ignore[arg-type]
    return Experiment(data=f"folder:{path}", folder=folder)


def test_images_count_by_their_content() -> None:
    """A moved folder is the same experiment; other images or other options are another one."""
    here, moved = _on("/a/pets"), _on("/b/animals")
    assert here != moved
    assert (here.digest, here.cell) == (moved.digest, moved.cell)
    for other in (
        _on("/a/pets", found=replace(FOUND, content="f" * 12)),
        _on("/a/pets", side=32),
        _on("/a/pets", mirror=False),
    ):
        assert other.digest != here.digest
        assert other.cell != here.cell
    assert here.data_name == "folder:pets-012345"


def test_records_hold_what_was_found() -> None:
    """As a dictionary and back; other data sets have no word of a folder."""
    experiment = _on("/a/pets")
    assert Experiment.from_dict(experiment.as_dict()) == experiment
    assert experiment.as_dict()["folder"]["found"]["mean"] == [0.5, 0.4, 0.3]
    plain = Experiment(folder=FolderConfig(side=32))
    assert "folder" not in plain.as_dict()
    assert plain.digest == Experiment().digest
    values = {**experiment.as_dict(), "folder": {"sides": 3}}
    with pytest.raises(ValueError, match=r"folder\.sides is not an option"):
        Experiment.from_dict(values)


def test_differences_are_those_of_options_in_use() -> None:
    """Other content is named; options of other data sets are not."""
    other = _on("/a/pets", found=replace(FOUND, content="f" * 12))
    assert other.differences(_on("/a/pets")) == [
        f"folder.found.content is {FOUND.content}, not {'f' * 12}"
    ]
    assert (
        Experiment(data="pairs").differences(_on("/a/pets"))[0]
        == "data is folder:/a/pets, not pairs"
    )
    assert Experiment(folder=FolderConfig(side=32)).differences(Experiment()) == []
