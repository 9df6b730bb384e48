"""One attempt at one run, in a process of its own.

`python -m scalednl.lab.sweep.worker` reads a job from its standard input, logs to standard error,
and reports on standard output how it ended. When its input closes, its parent has died, and it
ends as it would on a termination signal.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path

from scalednl.errors import CommandError, UsageError
from scalednl.lab.config import Experiment, RunSettings
from scalednl.lab.records.run import BusyError
from scalednl.lab.sweep.jobs import End, Job

POLL_SECONDS = 0.5


def attempt(job: Job) -> End:
    """Work on a job; whatever happens becomes an end with a sentence."""
    sys.argv = list(job.command)
    os.environ.update(job.environment)
    print(f"--- {datetime.now(timezone.utc).isoformat(timespec='seconds')}", flush=True)
    patience = time.monotonic() + job.patience
    while True:
        try:
            return _find(job.work)(job)
        except BusyError as error:
            if time.monotonic() >= patience:
                return End("busy", str(error))
            time.sleep(POLL_SECONDS)
        except UsageError as error:
            return _said(End("refused", str(error)))
        except (CommandError, ValueError) as error:
            return _said(End("failed", str(error)))
        except KeyboardInterrupt:
            return End("interrupted", "interrupted before it began")
        except Exception as error:
            traceback.print_exc()
            return End("failed", f"{type(error).__name__}: {error}")


def train(job: Job) -> End:
    """Train the job's experiment into its folder, from where it stands."""
    import warnings

    from scalednl.lab.training.run import run
    from scalednl.lab.training.run_writer import summary

    experiment, settings = Experiment.from_dict(job.experiment), RunSettings(**job.settings)
    root = None if job.root is None else Path(job.root)
    with warnings.catch_warnings():
        # torch's note on layouts of 1x1 weights; it costs nothing here.
        warnings.filterwarnings("ignore", message="Grad strides do not match")
        outcome = run(experiment, Path(job.path), settings, root=root)
    assert outcome.status != "running"
    return End(outcome.status, summary(outcome.result))


def _find(work: str) -> Callable[[Job], End]:
    module, _, function = work.partition(":")
    return getattr(import_module(module), function)


def _said(end: End) -> End:
    print(end.message, flush=True)
    return end


def _end_with_parent() -> None:
    """Wait for the input to close; only the death of whoever started us closes it."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """One job from standard input."""
    job = Job.from_json(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer = os.dup(1)
    os.dup2(2, 1)
    end = attempt(job)
    # Short enough for a pipe that nobody reads yet; the log has it all.
    end = replace(end, message=end.message[:2000])
    os.write(answer, json.dumps(asdict(end)).encode())
    sys.exit(0 if end.how in ("finished", "diverged") else 1)


if __name__ == "__main__":
    main()
