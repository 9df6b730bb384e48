"""Files of a user's own: what is executed, what counts as a change, and what is refused."""

import ast
from pathlib import Path

import pytest

from scalednl.errors import UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.user_code import (
    check_code,
    code_of,
    files_of,
    fingerprint_of,
    fingerprint_of_code,
    load_attention,
    load_code,
    load_network,
    loaded_files,
    split_reference,
)
from scalednl.models.foreign_network import UnknownNetworkError, make_foreign
from tests.lab.training.builders import small
from tests.lab.training.own_networks import SOURCE, write_own

CODE = """
import math

def double(value):
    return 2 * value
"""


def _write(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_is_executed_once_per_content(tmp_path: Path) -> None:
    """The same content gives the same module; changed code gives another."""
    path = _write(tmp_path, CODE)
    first = load_code(path)
    assert first.function("double")(21) == 42
    assert load_code(path) is first
    _write(tmp_path, CODE.replace("2 *", "3 *"))
    second = load_code(path)
    assert second.fingerprint != first.fingerprint
    assert second.function("double")(21) == 63


def test_comments_docstrings_and_layout_do_not_count(tmp_path: Path) -> None:
    """The fingerprint stays while the code does."""
    plain = load_code(_write(tmp_path, CODE))
    text = '"""A module."""\n' + CODE.replace(
        "    return 2 * value", '    """Twice."""\n    # why\n    return (2 *\n            value)'
    )
    assert load_code(_write(tmp_path, text)).fingerprint == plain.fingerprint


def test_a_file_can_import_its_neighbours(tmp_path: Path) -> None:
    """As `python FILE` lets it."""
    _write(tmp_path, "FACTOR = 7", "a_neighbour_of_mine.py")
    path = _write(tmp_path, "from a_neighbour_of_mine import FACTOR\ndef f(x): return FACTOR * x")
    assert load_code(path).function("f")(6) == 42


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my_file.py:sigmoid", (Path("my_file.py"), "sigmoid")),
        ("/a folder/my.file.py:f_2", (Path("/a folder/my.file.py"), "f_2")),
        ("sigmoid", None),
        ("timm:resnet18", None),
        ("my_file.py", None),
        ("my_file.py:", None),
        ("my_file.py:2f", None),
    ],
)
def test_references(text: str, expected: tuple[Path, str] | None) -> None:
    """FILE.py:NAME and nothing else."""
    assert split_reference(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:", "line 1 is not Python code"),
        ("x = 1\nraise RuntimeError('no luck')", "line 2 failed: RuntimeError: no luck"),
        ("import a_module_that_nobody_has", "line 1 failed: ModuleNotFoundError"),
        ("\x00", "is not Python code"),
        ("(" * 3000 + ")" * 3000, "is not Python code"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    """The path, the line where there is one, and what is wrong."""
    path = _write(tmp_path, text)
    with pytest.raises(UsageError, match=words) as caught:
        load_code(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    """A missing file, a folder, a huge file, a name that the file does not have."""
    with pytest.raises(UsageError, match=r"absent\.py cannot be read: No such file"):
        load_code(tmp_path / "absent.py")
    with pytest.raises(UsageError, match="cannot be read"):
        load_code(tmp_path)
    with pytest.raises(UsageError, match="larger than"):
        load_code(_write(tmp_path, "#" * 2_000_000))
    with pytest.raises(UsageError, match=r"has no function 'doubel'; did you mean 'double'\?"):
        load_code(_write(tmp_path, CODE)).function("doubel")


ATTENTION = """
import torch, scalednl

@scalednl.register_attention
def cosine(theta, phi):
    return torch.cos(theta @ phi.mT) / phi.shape[-2]

def build(num_classes):
    return torch.nn.Linear(1, num_classes)
"""


def test_code_is_compared_with_what_was_recorded(tmp_path: Path) -> None:
    """Loaded and unchanged passes; changed code and files that are not loaded are sentences."""
    path = _write(tmp_path, ATTENTION, "cosines.py")
    with pytest.raises(UsageError, match=r"the attention cosine .* is not loaded: add --code FILE"):
        check_code(["cosine=000000000000"])
    assert load_attention(path, "cosine") == "cosine"
    assert load_network(path, "build") == "cosines:build"
    assert loaded_files()[-1] == path
    entries = code_of(["cosine", "cosines:build"])
    assert entries == tuple(
        f"{name}={fingerprint_of('cosine')}" for name in ("cosine", "cosines:build")
    )
    check_code(entries)
    _write(tmp_path, ATTENTION.replace("cos(", "sin("), "cosines.py")
    load_code(path)
    assert code_of(["cosine"]) != entries[:1]
    with pytest.raises(UsageError, match="the code of cosine has changed since this run began"):
        check_code(entries[:1])
    assert code_of(["cosine"], given=entries) == entries[:1]
    assert files_of(entries) == (path,)
    assert files_of([]) == ()
    with pytest.raises(UsageError, match=r"network other:build .* add --code other\.py"):
        check_code(["other:build=000000000000"])
    twin = _write(tmp_path, "X = 1", "other/cosines.py")
    with pytest.raises(UsageError, match="have the same name: rename one of them"):
        load_code(twin)


def test_an_attention_of_an_imported_module_has_a_fingerprint_too() -> None:
    """Its source counts; without any source, its compiled form does."""
    import torch

    import scalednl

    @scalednl.register_attention
    def written(theta, phi):  # type: ignore[no-untyped-def]
        return theta @ phi.mT

    names = {"torch": torch, "scalednl": scalednl}
    exec("@scalednl.register_attention\ndef typed(theta, phi): return 3 * theta @ phi.mT", names)
    found = [fingerprint_of(name) for name in ("written", "typed")]
    assert all(len(letters) == 12 for letters in found)
    assert found[0] != found[1]
    assert fingerprint_of("scaled") == fingerprint_of("nobody") == ""


@pytest.mark.parametrize(
    "entry", ["", "sigmoid", "sigmoid=", "a=0123456789ag", "a\nb=0123456789ab", "<b>=0123456789ab"]
)
def test_an_entry_is_a_name_and_twelve_letters(entry: str) -> None:
    """Anything else, which only a damaged or hostile record has, is refused."""
    with pytest.raises(UsageError, match="is not NAME=FINGERPRINT"):
        code_of(["sigmoid"], given=[entry])


def test_a_file_registers_its_networks(tmp_path: Path) -> None:
    """Its own functions and classes that take num_classes; nothing that it imported."""
    source = f"from torch.nn import Linear\nfrom shutil import rmtree\n{SOURCE}"
    path = write_own(tmp_path, "several.py", source)
    load_code(path)
    for name in ("several:build", "several:Net"):
        assert type(make_foreign(name, 3)).__name__ == "Net"
    for name in ("several:classes", "several:Linear", "several:rmtree"):
        with pytest.raises(UnknownNetworkError):
            make_foreign(name, 3)
    with pytest.raises(UsageError, match=r"called as f\(num_classes=10\)"):
        load_network(path, "classes")
    experiment = small(model=load_network(path, "build"), at=("stem",))
    assert experiment.code == (f"several:build={fingerprint_of('several:build')}",)
    assert small().code == ()


def test_a_fingerprint_is_the_same_in_every_version_of_python() -> None:
    """Fields that are empty, and those that newer versions add, do not count: a pinned value."""
    tree = ast.parse("def f(theta, phi):\n    return theta @ phi.mT / 2.5\n")
    assert fingerprint_of_code(tree) == "2d2d3be820ab"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.type_params = []  # type: ignore[attr-defined]
            vars(node)["_fields"] = (*node._fields, "type_params")
    assert fingerprint_of_code(tree) == "2d2d3be820ab"


@pytest.mark.parametrize("name", ["my net.py", "2net.py", "réseau.py"])
def test_files_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Spaces, digits and other alphabets go through records too."""
    experiment = small(model=load_network(write_own(tmp_path, name), "build"), at=("stem",))
    assert experiment.model == f"{Path(name).stem}:build"
    assert Experiment.from_dict(experiment.as_dict()) == experiment


def test_two_spellings_of_a_path_are_one_file(tmp_path: Path) -> None:
    """It is executed once, and its attention registered once."""
    path = _write(tmp_path, ATTENTION, "spelt.py")
    first = load_code(path)
    assert load_code(tmp_path / ".." / tmp_path.name / "spelt.py") is first


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("import sys\nsys.exit(3)", "left.py", "line 2 failed: SystemExit: 3"),
        ("raise ValueError('one\\ntwo')", "lines.py", "failed: ValueError: one$"),
        ("raise ValueError", "silent.py", "failed: ValueError: no details"),
        ("X = 1", "timm.py", "cannot be loaded under that name: rename it"),
        ("X = 1", "a=b.py", "cannot be loaded under that name: rename it"),
        ("", "empty.txt", r"empty\.txt must end in \.py"),
        ("-" * 200_000 + "1", "deep.py", "is not Python code: .+"),
    ],
)
def test_odd_files_are_one_sentence(tmp_path: Path, text: str, name: str, words: str) -> None:
    """Files that leave, that fail in several lines or none, and names that cannot be recorded."""
    with pytest.raises(UsageError, match=words) as caught:
        load_code(_write(tmp_path, text, name))
    assert "\n" not in str(caught.value)
