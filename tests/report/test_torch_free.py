"""Reading needs no torch."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "scalednl.paper.claims",
        "scalednl.paper.scales",
        "scalednl.records.run",
        "scalednl.report.build",
    ],
)
def test_no_torch_is_imported(module: str) -> None:
    """The rooms of readers import on a machine that has no torch."""
    block = "import sys; sys.modules['torch'] = None; "
    subprocess.run([sys.executable, "-c", f"{block}import {module}"], check=True, timeout=60)
