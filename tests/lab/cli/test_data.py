"""`scalednl data` as a person meets it."""

from pathlib import Path

import pytest
from PIL import Image

from scalednl.lab.config.generated import GENERATED
from tests.lab.cli.conftest import Refused, Run
from tests.lab.data.builders import image_folder, small_cifar, tar, tiny_files, zipped


def test_get_verify_and_list(tmp_path: Path, run_here: Run) -> None:
    """A data set is stored, verified and listed; a damaged one is listed as such."""
    source = zipped(tmp_path / "tiny.zip", tiny_files())
    root = ["--root", str(tmp_path / "root")]
    got = run_here("data", "get", "tiny-imagenet", "--from", str(source), *root)
    assert got.returncode == 0, got.stderr
    assert "6 training and 4 test images of 2 classes, verified" in got.stdout
    verified = run_here("data", "verify", "tiny-imagenet", *root)
    assert "all 10 images are valid" in verified.stdout
    table = run_here("data", "list", *root).stdout.splitlines()
    assert table[0].split() == ["name", "state", "size", "images", "classes", "path"]
    rows = {line.split()[0]: line for line in table[1:]}
    assert "not stored: scalednl data get cifar10" in rows["cifar10"]
    assert "ready" in rows["tiny-imagenet"]
    assert str(tmp_path / "root" / "tiny-imagenet") in rows["tiny-imagenet"]
    assert all("generated" in rows[name] for name in GENERATED)
    (tmp_path / "root" / "tiny-imagenet" / "dataset.json").write_text("{")
    assert "damaged" in run_here("data", "list", *root).stdout
    broken = run_here("data", "verify", "tiny-imagenet", *root)
    assert broken.returncode == 1
    assert "dataset.json is damaged" in broken.stderr
    assert len(broken.stderr.splitlines()) == 1


def test_mistakes_and_failures_have_their_codes(tmp_path: Path, refused: Refused) -> None:
    """Code 2 for a wrong command line, 1 for anything else; one line, no traceback."""
    _, files = small_cifar()
    other = tar(tmp_path / "other.tar", files)
    root = ["--root", str(tmp_path)]
    (tmp_path / "d.png").mkdir()
    cases = [
        (["get", "folder:x"], 2, "folder:x is your own: use it as it is, with --data folder:x"),
        (["show", "folder:", "p.png"], 2, "folder: must name a folder"),
        (["verify", f"folder:{tmp_path}/no"], 2, "no does not exist"),
        (["show", str(tmp_path), "p.png"], 2, f"use folder:{tmp_path}"),
        (["get", "cifar01"], 2, "did you mean 'cifar10'"),
        (["get", "cifar10", "--from", str(tmp_path / "none")], 1, "none does not exist"),
        (["get", "cifar10", "--from", str(other)], 1, "is not the official file"),
        (["get", "cifar10", "--from", "x", "--mirror", "y"], 2, "cannot be used together"),
        (["get", "cifar10", "--from", "http://a/b"], 2, "give an address with --mirror"),
        (["get", "cifar10", "--mirror", "foo"], 2, "--mirror must begin with http://"),
        (["show", "pairs", str(tmp_path / "d.png")], 1, "cannot be written"),
        (["verify", "cifar100"], 1, f"run `scalednl data get cifar100 --root {tmp_path}`"),
        (["show", "pairs", "pairs.jpg"], 2, "pairs.jpg must end in .png"),
        (["show", "pairs", "p.png", "--images", "0"], 2, "--images must be at least 1, got 0"),
        (["show", "pairs", "p.png", "--images", "5001"], 2, "--images must be at most 5000, the"),
    ]
    for arguments, code, said in cases:
        refused(["data", *arguments, *root], code, said)


@pytest.mark.parametrize("command", ["get", "verify"])
@pytest.mark.parametrize("name", GENERATED)
def test_there_is_nothing_to_get_of_generated_data(run_here: Run, command: str, name: str) -> None:
    """The command reports it and succeeds."""
    run = run_here("data", command, name)
    assert run.returncode == 0
    assert f"{name} is generated" in run.stdout


@pytest.mark.parametrize(("name", "height"), [("pairs", 64), ("recall", 64)])
def test_show_draws_a_sheet(tmp_path: Path, run_here: Run, name: str, height: int) -> None:
    """Six images per row, each in its own proportions and with its caption."""
    run = run_here("data", "show", name, str(tmp_path / "a.png"), "--images", "7")
    assert run.returncode == 0, run.stderr
    picture = Image.open(tmp_path / "a.png").convert("RGB")
    row = height + 36 + 16
    assert picture.size == (6 * 176 + 16, 2 * row + 16)
    assert picture.getpixel((16 + 3, 16 + 3)) != (255, 255, 255)
    # The second row has one image only.
    assert picture.getpixel((16 + 176 + 80, 16 + row + 30)) == (255, 255, 255)


def test_a_folder_of_images(tmp_path: Path, run_here: Run) -> None:
    """It is verified, drawn and listed; images that cannot be read are all named."""
    pets = image_folder(tmp_path / "pets", {"cat": 9, "dog": 5})
    name, root = f"folder:{pets}", ["--root", str(tmp_path / "root")]
    assert "all 14 images of 2 classes are valid" in run_here("data", "verify", name).stdout
    drawn = run_here("data", "show", name, str(tmp_path / "sheet.png"), *root)
    assert drawn.returncode == 0, drawn.stderr
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width > 900
    listed = run_here("data", "list", *root).stdout
    assert f"folder:{pets} (side=64 resize=crop held_out=0.1)  ready" in listed
    for number in range(5):
        (pets / "cat" / f"{number}.jpg").write_bytes(b"x")
    assert "changed or gone: decoded again if used" in run_here("data", "list", *root).stdout
    checked = run_here("data", "verify", name, *root)
    assert checked.returncode == 1
    assert checked.stdout.count("not an image of a known kind") == 5
    assert "5 of 14 images" in checked.stderr
    next((tmp_path / "root" / "folders").glob("pets-*/dataset.json")).write_text("{")
    assert "damaged: decoded again when used" in run_here("data", "list", *root).stdout
