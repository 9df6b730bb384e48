"""Peak memory of work in a process of its own."""

import torch

from scalednl.lab.bench.blocks import block_step
from scalednl.lab.bench.peak import peak_of


def test_a_peak_is_that_of_a_process_of_its_own() -> None:
    """The input and its result are seen, and what this process holds is not."""
    ballast = torch.ones(2**26)
    peak = peak_of(block_step, "auto", 16, 256, False, "cpu", runs=1, with_inputs=True)
    one_map = 16 * 256 * 256 * 4
    assert 2 * one_map < peak.bytes < ballast.nbytes
    assert peak.seconds > 0
