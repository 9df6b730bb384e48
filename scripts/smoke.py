"""What an installed package must do; `make package` runs it in a clean environment.

python -I scripts/smoke.py base|lab
"""

import importlib.util
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import torch

import scalednl

COMMANDS = (
    "train pairs-scaled --epochs 1 --limit 256 --device cpu --out runs/smoke",
    "eval runs/smoke",
    "report runs -o report.html",
)


def base() -> None:
    """The library: every name, a network trained for a step, its weights saved and loaded."""
    home = Path(scalednl.__file__).resolve()
    assert "site-packages" in home.parts, f"imported from {home}, not from the installed package"
    assert scalednl.__version__ == version("scalednl")
    for name in scalednl.__all__:
        getattr(scalednl, name)
    blocks = scalednl.StackConfig(scalednl.BlockConfig(norm_init=1.0), count=1)
    model = scalednl.create_model("preresnet8", 10, blocks)
    images = torch.randn(2, 3, 32, 32)
    model(images).square().sum().backward()
    scalednl.save_model(model, "net.safetensors")
    with torch.no_grad():
        loaded = scalednl.load_model("net.safetensors").eval()
        assert torch.equal(loaded(images), model.eval()(images))


def without_lab() -> None:
    """The command names the extra that it needs."""
    assert importlib.util.find_spec("tyro") is None, "the environment is not clean"
    done = _command("train", "pairs-scaled")
    assert done.returncode == 1, done.stdout
    assert done.stderr.endswith("pip install 'scalednl[lab]'\n"), done.stderr


def with_lab() -> None:
    """The command trains, tests and writes a page, for which it needs the package's data files."""
    for line in COMMANDS:
        done = _command(*line.split())
        assert done.returncode == 0, f"scalednl {line}: {done.stderr}"
    assert "</html>" in Path("report.html").read_text(encoding="utf-8")


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The script that was installed beside this interpreter."""
    program = Path(sys.executable).with_name("scalednl")
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=600)


if __name__ == "__main__":
    base()
    {"base": without_lab, "lab": with_lab}[sys.argv[1]]()
