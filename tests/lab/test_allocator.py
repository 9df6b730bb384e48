"""The allocator keeps freed memory, unless the user has chosen otherwise; nothing else changes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalednl.lab import allocator
from scalednl.lab.allocator import Allocator, keep_memory
from tests.lab.training.builders import OPTIONS

FAULTS = """
import sys
from statistics import median
from scalednl.lab.allocator import keep_memory
from scalednl.lab.bench.measure import interleaved
from scalednl.lab.bench.orders import steps
print(keep_memory(sys.argv[1] == "keep").state)
step = {"": steps(8, 32, 32, "cpu")["softmax plain"]}
print(median(one[""].page_faults for one in interleaved(step, 5, warm_up=3)))
"""
GLIBC = pytest.mark.skipif(
    not allocator._is_glibc() or bool(allocator.chosen_by_user()),
    reason="needs glibc with its own malloc, and no MALLOC_ variable",
)


@pytest.fixture(autouse=True)
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test decides anew, and the decision of this process is restored."""
    monkeypatch.setattr(allocator, "_current", None)


def _python(*arguments: str) -> list[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split()


@GLIBC
def test_a_step_takes_few_page_faults() -> None:
    """After a warm-up a step has less than a tenth of the faults that glibc's default makes."""
    kept = _python("-c", FAULTS, "keep")
    default = _python("-c", FAULTS, "default")
    assert (kept[0], default[0]) == ("kept", "default")
    assert 10 * int(kept[1]) < int(default[1])


@GLIBC
def test_training_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    """Losses and weights of two short trainings are equal; both records name their allocator."""
    found = {}
    for option in ("--keep-memory", "--no-keep-memory"):
        out = tmp_path / option
        command = ["train", "pairs-scaled", *OPTIONS, "--epochs", "1", option, "--out", str(out)]
        _python("-m", "scalednl", *command)
        result = json.loads((out / "result.json").read_text())
        losses = [json.loads(line) for line in (out / "epochs.jsonl").read_text().splitlines()]
        found[option] = (
            [(one["train_loss"], one["test_loss"]) for one in losses],
            result["weights_sha256"],
        )
        config = json.loads((out / "config.json").read_text())
        state = "kept" if option == "--keep-memory" else "default"
        assert f'"state": "{state}"' in json.dumps(config)
    kept, default = found.values()
    assert kept == default
    assert kept[1]


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_ARENA_MAX", "2"), ("GLIBC_TUNABLES", "glibc.malloc.mmap_max=0")],
)
def test_what_the_user_set_is_left_alone(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of the allocator is respected, and recorded by its name."""
    monkeypatch.setattr(allocator, "SETTINGS", {12345: "never called"})
    monkeypatch.setenv(name, value)
    found = keep_memory()
    assert found.state == "own"
    assert name in found.detail
    assert allocator.current_allocator() == found


@GLIBC
def test_other_tunables_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """GLIBC_TUNABLES without the allocator's is not a choice of an allocator."""
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.cpu.x86_ibt=off")
    assert allocator.chosen_by_user() == ""


def test_another_malloc_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preloaded allocator, whose `malloc` is not the C library's, is left alone."""
    monkeypatch.setattr(allocator, "_is_glibc", lambda: True)
    monkeypatch.setattr(allocator, "_mallocs_with_glibc", lambda: False)
    assert "another malloc is loaded" in keep_memory().detail


@GLIBC
def test_a_preloaded_allocator_is_noticed() -> None:
    """With jemalloc in the place of glibc's malloc nothing is set."""
    jemalloc = Path(pytest.importorskip("ray").__file__).parent / "core" / "libjemalloc.so"
    if not jemalloc.is_file():
        pytest.skip(f"this build of Ray has no {jemalloc.name}")
    code = "from scalednl.lab.allocator import keep_memory; print(keep_memory().state)"
    for preloaded, state in (("", "kept"), (str(jemalloc), "own")):
        environment = {**os.environ, "LD_PRELOAD": preloaded}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.split() == [state]


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the C library is not glibc nothing happens, and this is stated."""
    monkeypatch.setattr(allocator, "_is_glibc", lambda: False)
    monkeypatch.setattr(allocator, "chosen_by_user", lambda: "")
    assert keep_memory() == Allocator("other", "not glibc")
    assert str(keep_memory()) == "the system's, left unchanged (not glibc)"


@GLIBC
def test_the_option_leaves_the_default() -> None:
    """Switched off, nothing is set; a later caller may still switch it on, and then it stays."""
    assert keep_memory(False) == Allocator("default")
    assert keep_memory() == Allocator("kept")
    assert keep_memory(False) == Allocator("kept")


def test_nothing_is_known_before() -> None:
    """A process that has not computed has no allocator to record."""
    assert allocator.current_allocator() is None
