"""The noise of the printed numbers, computed from the printed numbers."""

import math

import pytest

from scalednl.lab.paper.printed_noise import (
    Noise,
    noise,
    noise_factor,
    pair_of_means,
    placebos,
)
from scalednl.lab.paper.tables import Mean
from scalednl.lab.recipes import TINY


def test_placebos_are_the_printed_ones() -> None:
    """Five pairs of printed cells describe one training each, and differ by 0 to 0.27 points."""
    found = {(p.name.split(",")[0], p.data): p.difference for p in placebos()}
    assert found == {
        ("Table 2", "cifar10"): 0.09,
        ("Table 2", "cifar100"): 0.0,
        ("Table 2", TINY): 0.27,
        ("softmax", "cifar10"): -0.04,
        ("softmax", "cifar100"): 0.1,
    }


def test_noise_is_the_root_mean_square_of_the_placebos() -> None:
    """Four CIFAR placebos give 0.070 for two 10-seed means, that is 0.157 for one run."""
    rms = math.sqrt((0.09**2 + 0.0**2 + 0.04**2 + 0.1**2) / 4)
    found = noise("cifar10")
    assert found.of(pair_of_means(10)) == pytest.approx(rms, rel=1e-12)
    assert found.run_sd == pytest.approx(rms * math.sqrt(5), rel=1e-12)
    assert noise("cifar100") == found
    assert noise(TINY).of(pair_of_means(3)) == pytest.approx(0.27, rel=1e-12)


def test_the_interval_has_the_chi_square_quantiles() -> None:
    """With n placebos, n sd^2 over the squared limits are the 2.5 and 97.5 % points for n."""
    low, high = Noise(run_sd=1.0, placebos=4).interval
    assert 4 / low**2 == pytest.approx(11.1433, abs=1e-4)
    assert 4 / high**2 == pytest.approx(0.48442, abs=1e-5)


def test_an_interaction_has_sqrt_2_times_the_noise() -> None:
    """Four means of 10 seeds are sqrt(2) noisier than two; 3 seeds are sqrt(10 / 3) noisier."""
    mean = Mean(5.0, 10)
    four = (1, mean), (-1, mean), (-1, mean), (1, mean)
    assert noise_factor(four) == pytest.approx(math.sqrt(2) * noise_factor(pair_of_means(10)))
    ratio = noise_factor(pair_of_means(3)) / noise_factor(pair_of_means(10))
    assert ratio == pytest.approx(math.sqrt(10 / 3))


def test_p_counts_the_placebos() -> None:
    """A difference of 2.776 noises has p = 0.05 with 4 placebos, of 12.71 noises with one."""
    for placebo_count, quantile in ((4, 2.7764), (1, 12.7062)):
        found = Noise(run_sd=1.0, placebos=placebo_count)
        terms = (1, Mean(quantile * noise_factor(pair_of_means(10)), 10)), (-1, Mean(0.0, 10))
        assert found.p(terms) == pytest.approx(0.05, abs=1e-4)
