"""The library works in an environment that holds the base install and nothing else.

The environment is a folder of links to the distributions that the base dependencies bring in, by
their own metadata, and Python runs with this folder as its only site-packages.
"""

import os
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
DEPENDENCIES = [line for line in distribution("scalednl").requires or () if "extra ==" not in line]

NUMPY = "ignore:Failed to initialize NumPy:UserWarning"
"""torch's own warning where there is no NumPy"""


def _installed_with(requirements: list[str]) -> set[str]:
    """The names of all distributions that these requirements bring in, without extras."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name not in found:
            found.add(name)
            waiting += distribution(name).requires or []
    return found


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and what its base install brings, as links."""
    folder = tmp_path_factory.mktemp("site-packages")
    for name in _installed_with(DEPENDENCIES):
        one = distribution(name)
        for top in {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "")}:
            if top != "__pycache__" and not (folder / top).exists():
                (folder / top).symlink_to(Path(str(one.locate_file(top))))
    (folder / "scalednl").symlink_to(ROOT / "src" / "scalednl")
    return folder


def _python(site_packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with these packages alone: -S leaves the usual site-packages out."""
    environment = {**os.environ, "PYTHONPATH": str(site_packages)}
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=site_packages, timeout=300
    )


def test_the_base_install_is_small() -> None:
    """Three direct dependencies, and at most six packages beside torch and what torch needs."""
    names = {Requirement(line).name for line in DEPENDENCIES}
    assert names == {"torch", "jaxtyping", "safetensors"}
    beside_torch = _installed_with(DEPENDENCIES) - _installed_with(["torch"])
    assert len({*beside_torch, "scalednl"}) <= 6, beside_torch


def test_the_library_needs_nothing_else(site_packages: Path) -> None:
    """Every public name, a block, a network with its weights, insertion, capture: no lab part."""
    code = """
import importlib.util, sys, torch, scalednl
assert importlib.util.find_spec("numpy") is None and importlib.util.find_spec("tyro") is None
for name in scalednl.__all__:
    getattr(scalednl, name)
x = torch.randn(2, 64, 9, 9, requires_grad=True)
block = scalednl.NonLocal2d(64, norm_init=1.0)
block(x).square().sum().backward()
assert x.grad is not None and x.grad.abs().sum() > 0
assert block.attention_map(x).shape == (2, 4, 81, 81)
model = scalednl.create_model("preresnet8", 10, scalednl.StackConfig(count=1))
images = torch.randn(2, 3, 32, 32)
scalednl.save_model(model, "net.safetensors")
loaded = scalednl.load_model("net.safetensors")
with torch.no_grad():
    assert torch.equal(loaded.eval()(images), model.eval()(images))
    with scalednl.capture_attention(loaded) as captured:
        loaded(images)
assert len(captured) == 1
plain, report = scalednl.insert_nonlocal(
    scalednl.create_model("preresnet8", 10), at="stages.1.0", example=images
)
scalednl.functional.nonlocal_attention(*torch.randn(3, 1, 25, 8))
for name in scalednl.list_weights():
    assert not scalednl.load_model(name).training
try:
    scalednl.load_model("no-such-network")
except ValueError as error:
    assert "no-such-network does not exist, and scalednl has no weights of" in str(error)
else:
    raise AssertionError("a network of no name")
assert not any(name.startswith("scalednl.lab") for name in sys.modules)
"""
    done = _python(site_packages, "-W", "error", "-W", NUMPY, "-c", code)
    assert done.returncode == 0, done.stderr


def test_integrations_name_the_package_they_need(site_packages: Path) -> None:
    """Without its framework, each integration is one sentence with the line to type."""
    code = """
import importlib
for name in ("timm", "mmcv", "ultralytics"):
    try:
        importlib.import_module(f"scalednl.integrations.{name}")
    except ImportError as error:
        print(error)
"""
    done = _python(site_packages, "-W", "ignore", "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"scalednl.integrations.{name} needs {name}, which is not installed: pip install {packages}"
        for name, packages in (
            ("timm", "timm"),
            ("mmcv", "mmcv-lite mmengine"),
            ("ultralytics", "ultralytics"),
        )
    ]


def test_the_command_line_names_the_extra_it_needs(site_packages: Path) -> None:
    """Without the extra `lab` every command is one sentence with the line to type."""
    for arguments in ([], ["--help"], ["train", "pairs-scaled"]):
        done = _python(site_packages, "-m", "scalednl", *arguments)
        assert done.returncode == 1
        assert done.stdout == ""
        assert re.fullmatch(r"scalednl: [^\n]* pip install 'scalednl\[lab\]'\n", done.stderr)
