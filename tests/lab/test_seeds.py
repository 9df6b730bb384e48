"""Seeds for every purpose: the same everywhere, and all different."""

from itertools import product

from scalednl.lab.seeds import derive_seed


def test_seeds_are_the_same_on_every_machine() -> None:
    """Numbers of recorded trainings depend on these values, which must never change."""
    assert derive_seed(0, "init") == 7797302695267191734
    assert derive_seed(3, "order", 7) == 7353139687491058433


def test_no_two_purposes_or_seeds_share_a_stream() -> None:
    """10,000 combinations give as many seeds, each of at most 63 bits."""
    purposes = ("init", "order", "augment", "test")
    found = {derive_seed(*key) for key in product(range(50), purposes, range(50))}
    assert len(found) == 50 * len(purposes) * 50
    assert all(0 <= seed < 2**63 for seed in found)
