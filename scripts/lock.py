"""Write requirements-ci.txt: every installed package with the hash of its file.

python -m scripts.lock

Run it in an environment that `make peers` has made from changed constraints. torch is left out: its
builds for CPUs and GPUs have one version and different hashes.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "requirements-ci.txt"
HEAD = """\
# Every package that CI installs, with the hash of its file, for Linux on x86-64 and Python 3.11.
# torch is not here: its builds for CPUs and GPUs have one version and different hashes.
# Written by `python -m scripts.lock` from the versions in constraints.txt.
"""
BUILD = "setuptools"
"""Builds this package itself"""
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def main() -> None:
    """Ask pip which files it would install."""
    frozen = subprocess.run(
        [*PIP, "freeze", "--exclude-editable"], check=True, capture_output=True, text=True
    )
    pins = [line for line in frozen.stdout.splitlines() if not line.startswith("torch==")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--dry-run", "--ignore-installed", "--no-deps", "--report", str(report)]
        subprocess.run([*PIP, "install", *options, *pins, BUILD], check=True)
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    lines = sorted(_line(item) for item in found["install"])
    LOCK.write_text(HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(lines)} packages in {LOCK.name}")


def _line(item: dict[str, Any]) -> str:
    name, version = item["metadata"]["name"].lower(), item["metadata"]["version"]
    digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{name}=={version} --hash=sha256:{digest}"


if __name__ == "__main__":
    main()
