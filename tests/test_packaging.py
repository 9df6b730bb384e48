"""Workflows, pins and metadata agree with pyproject.toml and with each other."""

import re
import shlex
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import scalednl
from scalednl.lab.cli import parse
from scripts.package import INSIDE_SDIST, missing_in_sdist, missing_in_wheel
from scripts.smoke import COMMANDS

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(p for p in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if p.stem != "config")
LOCKS = ("requirements-ci.txt", "requirements-release.txt")
INPUTS = {
    "actions/checkout": {"persist-credentials", "sparse-checkout", "sparse-checkout-cone-mode"},
    "actions/setup-python": {"python-version", "cache"},
    "actions/upload-artifact": {"name", "path", "if-no-files-found"},
    "actions/download-artifact": {"name", "path"},
}
"""What is used of the inputs that each action documents; others are ignored with a warning"""
PINNED_ACTION = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}")


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _jobs(path: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = _yaml(path)["jobs"]
    return jobs


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins(name: str) -> dict[str, str]:
    return {_normal(n): v for n, v in re.findall(r"^([\w.-]+)==([^\s;]+)", _text(name), re.M)}


def _combinations() -> set[tuple[str, str, str]]:
    """(system, Python, torch) of every job of the matrix."""
    matrix = _jobs(GITHUB / "workflows" / "library.yml")["library"]["strategy"]["matrix"]
    found = {(o, p, t) for o in matrix["os"] for p in matrix["python"] for t in matrix["torch"]}
    return found | {(one["os"], one["python"], one["torch"]) for one in matrix["include"]}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_few_rights_and_pinned_actions(path: Path) -> None:
    """A workflow may read only, its jobs have limits, and actions are named by their commit."""
    assert _yaml(path)["permissions"] == {"contents": "read"}
    for name, job in _jobs(path).items():
        assert job["timeout-minutes"] <= 60, name
        assert set(job.get("permissions", ())) <= {"contents", "id-token"}, name
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
            assert "uses" not in step or PINNED_ACTION.fullmatch(step["uses"]), step
            action = step.get("uses", "").partition("@")[0]
            assert not action or set(step.get("with", ())) <= INPUTS[action], step
            if action == "actions/checkout":
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_steps_of_workflows_exist(path: Path) -> None:
    """Targets of `make` and folders of tests that steps name are there."""
    targets = set(re.findall(r"^([a-z]+):", _text("Makefile"), re.M))
    for job in _jobs(path).values():
        for step in job["steps"]:
            words = shlex.split(step.get("run", ""))
            if words[:1] == ["make"]:
                assert set(words[1:]) <= targets
            assert all((ROOT / word).exists() for word in words if word.startswith("tests/"))


def test_the_matrix_is_what_pyproject_promises() -> None:
    """Every Python and system of the classifiers, the oldest torch and the pinned one."""
    text = _text("pyproject.toml")
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    assert f'requires-python = ">={pythons[0]}"' in text
    oldest, pinned = re.findall(r'"torch>=([\d.]+)"', text)[0], _pins("constraints.txt")["torch"]
    linux = {(p, t) for system, p, t in _combinations() if system == "ubuntu-latest"}
    assert linux == {(p, t) for p in pythons for t in (f"{oldest}.0", pinned)}
    for system in ("macos-latest", "windows-latest"):
        found = {(p, t) for name, p, t in _combinations() if name == system}
        assert found == {(pythons[0], f"{oldest}.0"), (pythons[-1], pinned)}
    assert len(re.findall(r'"Operating System :: ', text)) == 3


def test_the_matrix_runs_the_tests_of_the_floor() -> None:
    """The library's tests are those of `make floor`."""
    (tests,) = re.findall(r"^FLOOR_TESTS := (.*)$", _text("Makefile"), re.M)
    assert tests in _text(".github/workflows/library.yml")


def test_only_publishing_may_identify_itself() -> None:
    """The right to a token of identity belongs to one job, which builds nothing."""
    entitled = {
        (path.stem, name)
        for path in WORKFLOWS
        for name, job in _jobs(path).items()
        if "id-token" in job.get("permissions", {})
    }
    assert entitled == {("release", "publish")}
    publish = _jobs(GITHUB / "workflows" / "release.yml")["publish"]
    assert publish["environment"] == "release"
    assert not any("make" in step.get("run", "") for step in publish["steps"])
    assert "secrets." not in _text(".github/workflows/release.yml")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issue_forms_are_complete(path: Path) -> None:
    """A form has a name and a description, and its parts have labels and names of their own."""
    form = _yaml(path)
    assert form["name"]
    assert form["description"]
    parts = form["body"]
    assert len({part["id"] for part in parts}) == len(parts)
    assert all(part["attributes"]["label"] for part in parts)
    assert any(part.get("validations", {}).get("required") for part in parts)


def test_there_are_workflows_and_forms() -> None:
    """The tests above run over all of them, and dependabot looks after actions and pins."""
    assert {path.stem for path in WORKFLOWS} == {"check", "library", "release"}
    assert len(FORMS) == 4
    updates = _yaml(GITHUB / "dependabot.yml")["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"github-actions", "pip"}


@pytest.mark.parametrize("name", LOCKS)
def test_locks_have_the_pinned_versions(name: str) -> None:
    """Every locked package that constraints.txt pins has that version, and every line a hash."""
    pins, locked = _pins("constraints.txt"), _pins(name)
    assert {n: v for n, v in locked.items() if pins.get(n, v) != v} == {}
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}$", _text(name), re.M)) == len(locked)
    assert "torch" not in locked


def test_what_is_pinned_is_locked() -> None:
    """CI installs every pinned package but torch, and a release needs no other packages."""
    ci = _pins("requirements-ci.txt")
    assert _pins("constraints.txt").keys() - ci.keys() == {"torch"}
    release = _pins("requirements-release.txt")
    assert "twine" in release
    assert release.items() <= ci.items()


def test_every_extra_is_pinned() -> None:
    """What the extras ask for has a version in constraints.txt."""
    extras = re.findall(
        r"^\w+ = \[(.*?)\]",
        _text("pyproject.toml").partition("[project.opt")[2].partition("[project.scripts]")[0],
        re.M | re.S,
    )
    names = {_normal(Requirement(line).name) for e in extras for line in re.findall('"(.*?)"', e)}
    assert len(names) > 20
    assert names <= _pins("constraints.txt").keys()


def test_the_version_is_written_once() -> None:
    """pyproject.toml reads it from the package; the citation and the changelog agree."""
    assert 'dynamic = ["version"]' in _text("pyproject.toml")
    assert 'version = { attr = "scalednl.__version__" }' in _text("pyproject.toml")
    citation = _yaml(ROOT / "CITATION.cff")
    assert citation["version"] == scalednl.__version__
    (newest,) = re.findall(r"^## (\S+?),? ", _text("CHANGELOG.md"), re.M)[:1]
    assert newest == scalednl.__version__


def test_the_citation_names_the_paper() -> None:
    """It has the paper's DOI at the conference, its pages, its authors and its preprint."""
    paper = _yaml(ROOT / "CITATION.cff")["preferred-citation"]
    assert paper["doi"] == "10.1109/ICIP46576.2022.9897905"
    assert (paper["start"], paper["end"]) == (1031, 1035)
    assert "2207.13423" in paper["identifiers"][0]["value"]
    assert len(paper["authors"]) == 6


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_smoke_test_exist(line: str) -> None:
    """What `make package` tries in a clean environment parses to a command."""
    assert callable(parse(line.split()))


def test_a_wheel_has_every_file_of_the_package_and_no_other(tmp_path: Path) -> None:
    """A data file that pyproject.toml forgets is found, and so is a file that does not belong."""
    source = ROOT / "src"
    files = [p for p in source.rglob("scalednl/**/*") if p.is_file() and "__pyc" not in str(p)]
    wheel = tmp_path / "scalednl.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in files:
            archive.write(path, path.relative_to(source))
        archive.writestr("scalednl-0.1.0.dist-info/METADATA", "")
    assert missing_in_wheel(wheel) == set()

    left_out = "scalednl/lab/paper/claims.json"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in files:
            if path.relative_to(source).as_posix() != left_out:
                archive.write(path, path.relative_to(source))
        archive.writestr("tests/test_docs.py", "")
    assert missing_in_wheel(wheel) == {left_out, "tests/test_docs.py"}


def test_an_sdist_has_tests_and_docs(tmp_path: Path) -> None:
    """What `make test` and `make docs` need is missed where it is not there."""
    sdist = tmp_path / "scalednl.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        for name in (*INSIDE_SDIST, "src/scalednl", "scripts", "docs"):
            archive.add(ROOT / name, f"scalednl-0.1.0/{name}")
    missing = missing_in_sdist(sdist)
    assert "tests/test_packaging.py" in missing
    assert all(name.startswith("tests/") for name in missing)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_pyproject_parses() -> None:
    """The metadata is valid TOML, with the extras that the Makefile installs."""
    import tomllib

    extras = tomllib.loads(_text("pyproject.toml"))["project"]["optional-dependencies"]
    assert extras.keys() >= {"lab", "dev", "export", "sweep", "peers", "docs", "package"}
