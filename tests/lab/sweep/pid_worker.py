"""A worker process that trains, and writes down its own process."""

from scalednl.lab.sweep.worker import main
from tests.lab.sweep.builders import train_with_pid

if __name__ == "__main__":
    main(train_with_pid)
