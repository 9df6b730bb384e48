"""A worker process whose runs train nothing."""

from scalednl.lab.sweep.worker import main
from tests.lab.sweep.builders import work

if __name__ == "__main__":
    main(work)
