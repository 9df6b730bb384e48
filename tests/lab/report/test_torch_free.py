"""Reading needs no torch."""

import subprocess
import sys

import pytest

# SciPy looks for torch in sys.modules, so torch must be absent there, not None.
NO_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("torch is blocked")

sys.meta_path.insert(0, NoTorch())
"""


@pytest.mark.parametrize(
    "module",
    [
        "scalednl.lab.paper.claims",
        "scalednl.lab.paper.scales",
        "scalednl.lab.records.run",
        "scalednl.lab.report.write",
    ],
)
def test_no_torch_is_imported(module: str) -> None:
    """The rooms of readers import on a machine that has no torch."""
    subprocess.run([sys.executable, "-c", f"{NO_TORCH}\nimport {module}"], check=True, timeout=60)


def test_the_block_blocks() -> None:
    """The comparison can fail: with the finder in place torch cannot be imported."""
    done = subprocess.run([sys.executable, "-c", f"{NO_TORCH}\nimport torch"], capture_output=True)
    assert b"torch is blocked" in done.stderr
