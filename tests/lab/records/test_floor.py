"""The floor is the least time of a step on a machine."""

import pytest

from scalednl.lab.records.floor import MachineLimit, Work
from scalednl.lab.records.timing import Timing

LIMIT = MachineLimit(multiply_adds_per_second=1e9, bytes_per_second=1e8)


@pytest.mark.parametrize(
    ("work", "milliseconds"), [(Work(10**7, 10**5), 10.0), (Work(10**6, 10**6), 10.0)]
)
def test_the_floor_is_the_larger_of_two_times(work: Work, milliseconds: float) -> None:
    """Multiplying or moving, whichever takes longer; the share is the floor over the median."""
    floor = LIMIT.floor(work, Timing.of([15.0, 20.0, 25.0, 20.0, 20.0]))
    assert floor.milliseconds == milliseconds
    assert floor.share == 0.5
    assert str(floor) == "0.50"


def test_a_block_moves_its_maps() -> None:
    """x and z forward; x, dz and dx backward."""
    assert Work.of_block(7, 100, training=False) == Work(7, 200)
    assert Work.of_block(7, 100, training=True) == Work(7, 500)


def test_rates_in_words() -> None:
    """One multiply-add is two FLOP."""
    assert str(MachineLimit(1.5e11, 2.05e10)) == "float32 products 300 GFLOP/s, copies 20.5 GB/s"
