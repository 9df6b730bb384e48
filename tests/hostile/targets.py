"""What strangers' files are handed to; each returns a few words, or refuses in a sentence."""

from pathlib import Path


def report(folder: str, out: str) -> str:
    """The page of a folder."""
    from scalednl.lab.report.write import write_report

    return str(write_report([Path(folder)], Path(out)))


def weights(path: str) -> str:
    """The network in a weights file."""
    from scalednl.models.weights import load_model

    return str(load_model(path).config)


def checkpoint(path: str) -> str:
    """The tensors of a checkpoint of any kind."""
    from scalednl.models.checkpoint_file import read_checkpoint

    return f"{len(read_checkpoint(path))} tensors"


def photo(path: str) -> str:
    """The size of a picture."""
    from scalednl.lab.attention.read_photo import read_photo

    return str(read_photo(Path(path)).size)


def predictions(folder: str) -> str:
    """The predictions of a run."""
    from scalednl.lab.records.run import RunFolder

    found = RunFolder(Path(folder)).read_predictions()
    return "none" if found is None else str(found.shape)


def log(folder: str) -> str:
    """The end of a run's log."""
    from scalednl.lab.records.failure import log_tail

    return str(log_tail(Path(folder)))


def data(name: str, source: str) -> str:
    """The files of a data set in an archive or folder."""
    from scalednl.lab.data.catalogue import CATALOGUE

    chosen = CATALOGUE[name]
    files = chosen.read_source(Path(source))
    chosen.decode(files, Path(source), lambda _: None)
    return f"{len(files)} files"


def idle() -> str:
    """Nothing: what a process has without an attack."""
    return ""
