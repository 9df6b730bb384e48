"""Build the sdist and the wheel, check them, and try the wheel in a clean environment.

python -m scripts.package

`make package` runs it. The files are left in dist/, the environment in build/package.
"""

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
ENVIRONMENT = ROOT / "build" / "package"
INSIDE_SDIST = ("pyproject.toml", "README.md", "LICENSE", "Makefile", "constraints.txt")


def main() -> None:
    """Every step, in order; the first that fails ends it."""
    sdist, wheel = build()
    _run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    missing = [*missing_in_wheel(wheel), *missing_in_sdist(sdist)]
    if missing:
        sys.exit(f"{wheel.name}, {sdist.name}: not as in the repository: {', '.join(missing)}")
    try_wheel(wheel)
    for path in (sdist, wheel):
        print(f"{path.relative_to(ROOT)} ({path.stat().st_size / 2**10:,.0f} KiB)")


def build() -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from its contents, not from the repository."""
    print("Building sdist and wheel ...", flush=True)
    for old in DIST.glob("scalednl-*"):
        old.unlink()
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT)
    (sdist,), (wheel,) = DIST.glob("scalednl-*.tar.gz"), DIST.glob("scalednl-*.whl")
    return sdist, wheel


def missing_in_wheel(wheel: Path) -> set[str]:
    """Files that are in the package or in the wheel, and not in both."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    return found ^ _files("src/scalednl", ROOT / "src")


def missing_in_sdist(sdist: Path) -> set[str]:
    """Files that the sdist should contain and does not."""
    with tarfile.open(sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("src/scalednl", "tests", "docs", "scripts")
    return {*INSIDE_SDIST, *(name for f in folders for name in _files(f, ROOT))} - found


def try_wheel(wheel: Path) -> None:
    """Install it alone, then with the extra `lab`, and run scripts/smoke.py after each."""
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    python = ENVIRONMENT / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    # -I: a PYTHONPATH to the repository would count as an installed package.
    pip = (python, "-I", "-m", "pip", "--quiet", "--disable-pip-version-check")
    install = (*pip, "install", "-c", ROOT / "constraints.txt")
    print("Installing torch in build/package, about a minute ...", flush=True)
    # torch first and alone: what comes after it then finds the pinned one installed.
    _run(*install, "torch")
    for kind, extra in (("base", ""), ("lab", "[lab]")):
        print(f"Trying the wheel in a clean environment: {kind} ...", flush=True)
        _run(*install, f"{wheel}{extra}")
        _run(*pip, "check")
        with tempfile.TemporaryDirectory() as folder:
            _run(python, "-I", ROOT / "scripts" / "smoke.py", kind, cwd=Path(folder))


def _files(folder: str, base: Path) -> set[str]:
    """Every file of a folder of the repository, relative to `base`, without caches."""
    paths: Iterable[Path] = (ROOT / folder).rglob("*")
    return {
        path.relative_to(base).as_posix()
        for path in paths
        if path.is_file() and "__pycache__" not in path.parts
    }


def _run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command, and show what it printed if it fails."""
    done = subprocess.run(
        command, cwd=cwd, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{done.stdout}failed: {' '.join(map(str, command))}")


if __name__ == "__main__":
    main()
