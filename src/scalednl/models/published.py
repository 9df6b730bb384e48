"""Trained networks that come with the package, found by name.

Each is a folder of `scalednl/weights` with `weights.safetensors`, a model card (`README.md`), and
the records of the run that trained it (docs/weights.md).
"""

from pathlib import Path

from scalednl.options import suggestion

FOLDER = Path(__file__).parents[1] / "weights"
FILE = "weights.safetensors"


def list_weights() -> list[str]:
    """Names of the trained networks that come with the package, for `load_model`."""
    return sorted(path.parent.name for path in FOLDER.glob(f"[!.]*/{FILE}"))


def find_weights(source: str | Path) -> Path:
    """What there is at a path, or else the folder of the trained network of that name.

    A path that exists wins. Raises ValueError if there is neither.
    """
    path = Path(source)
    if path.exists():
        return path
    names = list_weights()
    if str(source) in names:
        return FOLDER / path
    if path.suffix or len(path.parts) != 1:
        raise ValueError(f"{source} does not exist")
    if (FOLDER / path).is_dir():
        raise ValueError(f"{FOLDER / path} has lost its {FILE}: install scalednl again")
    hint = suggestion(path, names) or _listed(names)
    raise ValueError(f"{source} does not exist, and scalednl has no weights of that name{hint}")


def _listed(names: list[str]) -> str:
    return f": there are {', '.join(names)}" if names else ": it comes with none"
