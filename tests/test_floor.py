"""The oldest versions that are promised are those that `make floor` tests."""

import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]


def _versions(requirements: list[str], operator: str) -> dict[str, Version]:
    """The one version that each requirement names with this operator."""
    found = {}
    for line in requirements:
        requirement = Requirement(line)
        (bound,) = [s for s in requirement.specifier if s.operator == operator]
        found[requirement.name] = Version(bound.version)
    return found


def _only_match(pattern: str, file: str) -> str:
    (match,) = re.findall(pattern, (ROOT / file).read_text(encoding="utf-8"), re.M)
    return str(match)


def test_the_floor_is_the_same_everywhere() -> None:
    """pyproject.toml, the Makefile and the README name the same oldest versions."""
    dependencies = re.findall(
        r'"([^"]+)"', _only_match(r"^dependencies = \[(.*)\]$", "pyproject.toml")
    )
    promised = _versions(dependencies, ">=")
    assert set(promised) == {"torch", "jaxtyping", "safetensors"}
    assert promised == _versions(_only_match(r"^FLOOR := (.*)$", "Makefile").split(), "==")
    readme = _only_match(r"PyTorch ([\d.]+)\s+or\s+newer", "README.md")
    assert promised["torch"] == Version(readme)


def test_every_pin_of_the_floor_replaces_one() -> None:
    """What `make floor` pins is left out of constraints.txt, and torchvision with torch."""
    removed = _only_match(r"grep -vE '\^\((.*)\)==' constraints\.txt", "Makefile").split("|")
    pinned = _versions(_only_match(r"^FLOOR := (.*)$", "Makefile").split(), "==")
    assert set(removed) == {*pinned, "torchvision"}
