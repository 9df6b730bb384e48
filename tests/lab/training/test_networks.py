"""Networks of a user's own file: their names, and the code that an experiment was recorded with."""

from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.errors import UsageError
from scalednl.lab.training.networks import (
    advice,
    check_code,
    files_of,
    register_network,
    register_networks,
    with_code,
)
from scalednl.models.foreign_network import make_foreign
from tests.lab.training.builders import small
from tests.lab.training.own_networks import SOURCE, write_own


def test_a_function_is_registered_under_its_file_and_name(tmp_path: Path) -> None:
    """The experiment gets the fingerprint; the file is known for those who resume the run."""
    path = write_own(tmp_path, "registered.py")
    name = register_network(path, "build")
    assert name == "registered:build"
    assert type(make_foreign(name, 3)).__name__ == "Net"
    experiment = with_code(small(model=name, at=("stem",)))
    (entry,) = experiment.code
    assert entry.startswith("registered:build=")
    assert with_code(experiment) == experiment
    assert files_of(experiment) == (path,)
    assert with_code(small()) == small()


def test_a_file_registers_all_of_its_networks(tmp_path: Path) -> None:
    """Its own functions and classes that take num_classes; nothing that it imported."""
    source = f"from torch.nn import Linear\nfrom shutil import rmtree\n{SOURCE}"
    names = register_networks(write_own(tmp_path, "several.py", source))
    assert {"several:build", "several:Net", "several:number"} <= set(names)
    assert not {"several:classes", "several:Linear", "several:rmtree"} & set(names)


def test_a_network_that_is_not_loaded_or_has_changed_is_refused(tmp_path: Path) -> None:
    """The sentence says which file to name; comments are no change."""
    with pytest.raises(UsageError, match=r"uses the network absent:build .* add --code absent.py"):
        check_code(small(model="absent:build"))
    assert advice("absent:build") == "add --code absent.py"
    path = write_own(tmp_path, "edited.py")
    experiment = with_code(small(model=register_network(path, "build"), at=("stem",)))
    write_own(tmp_path, "edited.py", f"# A comment.\n{SOURCE}")
    register_network(path, "build")
    check_code(experiment)
    write_own(tmp_path, "edited.py", SOURCE.replace("0.2", "0.3"))
    register_network(path, "build")
    with pytest.raises(UsageError, match=r"edited.py has changed since this run began"):
        check_code(experiment)
    check_code(replace(experiment, code=()))


def test_mistakes_in_files_are_sentences(tmp_path: Path) -> None:
    """A missing function, one with other parameters, and two files of one name."""
    path = write_own(tmp_path, "wrong.py")
    with pytest.raises(UsageError, match=r"has no function 'buidl'; did you mean 'build'"):
        register_network(path, "buidl")
    with pytest.raises(UsageError, match=r"called as f\(num_classes=10\)"):
        register_network(path, "classes")
    register_network(path, "build")
    (tmp_path / "b").mkdir()
    other = write_own(tmp_path / "b", "wrong.py", SOURCE.replace("0.2", "0.3"))
    with pytest.raises(UsageError, match=r"are both called wrong.py: rename one"):
        register_network(other, "build")
