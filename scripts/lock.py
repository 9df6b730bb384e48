"""Write requirements-ci.txt and requirements-release.txt: packages with the hashes of their files.

python -m scripts.lock

Run it in an environment that `make peers docs package` has made from changed constraints. The first
file has everything that is installed but torch, whose builds for CPUs and GPUs have one version and
different hashes. The second has what uploads a release, and nothing else.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HEADS = {
    "requirements-ci.txt": """\
# Every package that CI installs, with the hash of its file, for Linux on x86-64 and Python 3.11.
# torch is not here: its builds for CPUs and GPUs have one version and different hashes.
# Written by `python -m scripts.lock` from the versions in constraints.txt.
""",
    "requirements-release.txt": """\
# What uploads a release, with the hash of every file, for Linux on x86-64 and Python 3.11.
# Written by `python -m scripts.lock` from the versions in constraints.txt.
""",
}
BUILD = "setuptools"
"""Builds this package itself"""
UPLOAD = "twine"
"""Uploads a release"""
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def main() -> None:
    """Ask pip which files it would install."""
    frozen = subprocess.run(
        [*PIP, "freeze", "--exclude-editable"], check=True, capture_output=True, text=True
    )
    pins = [line for line in frozen.stdout.splitlines() if not line.startswith("torch==")]
    _lock("requirements-ci.txt", "--no-deps", *pins, BUILD)
    _lock("requirements-release.txt", "-c", str(ROOT / "constraints.txt"), UPLOAD)


def _lock(name: str, *requirements: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--dry-run", "--ignore-installed", "--report", str(report)]
        subprocess.run([*PIP, "install", *options, *requirements], check=True)
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    lines = sorted(_line(item) for item in found["install"])
    (ROOT / name).write_text(HEADS[name] + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(lines)} packages in {name}")


def _line(item: dict[str, Any]) -> str:
    name, version = item["metadata"]["name"].lower(), item["metadata"]["version"]
    digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{name}=={version} --hash=sha256:{digest}"


if __name__ == "__main__":
    main()
