"""Packages that are missing."""

import pytest

from scalednl.integrations.requirement import require


def test_a_missing_package_is_one_sentence() -> None:
    """The error names who needs the package and the line to type; other errors pass unchanged."""
    wanted = "^here needs absent_package, which is not installed: pip install absent-package$"
    with pytest.raises(ImportError, match=wanted):
        require("absent_package.layers", used_by="here", install="absent-package")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'json\.absent'"):
        require("json.absent", used_by="here", install="json")
