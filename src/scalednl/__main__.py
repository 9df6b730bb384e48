"""The command line, `scalednl` or `python -m scalednl`; its commands are in `scalednl.lab.cli`."""

import sys


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> None:
    try:
        from scalednl.lab.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "scalednl").split(".")[0] == "scalednl":
            raise
        sys.exit(
            f"scalednl: the command line needs {error.name}, which the base install leaves out: "
            "pip install 'scalednl[lab]'"
        )
    run()


if __name__ == "__main__":
    main()
