"""`python -m scalednl` is the command line."""

import sys
from pathlib import Path

# Run as a file, as `fabric run` does, this folder comes first in the path, and its `statistics`
# would stand before the standard library's.
HERE = Path(__file__).resolve().parent
sys.path[:] = [place for place in sys.path if not place or Path(place).resolve() != HERE]

from scalednl.cli import main  # noqa: E402

main()
