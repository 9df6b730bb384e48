"""The noise of the printed numbers, computed from the printed numbers."""

import math

import pytest

from scalednl.lab.paper.printed_contrasts import (
    LARGER,
    SAME,
    PrintedContrast,
    design_powers,
    position_shares,
    printed_contrasts,
)
from scalednl.lab.paper.printed_noise import (
    Noise,
    noise,
    noise_factor,
    pair_of_means,
    placebos,
    total,
)
from scalednl.lab.paper.tables import DATA, Mean
from scalednl.lab.recipes import CIFAR, TINY


def _contrast(name: str, data: str) -> PrintedContrast:
    (found,) = (c for c in printed_contrasts() if (c.name, c.data) == (name, data))
    return found


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


def test_the_encoding_has_its_share_of_the_gain() -> None:
    """Of 1-head softmax, 0.185 of 0.64 and 0.35 of 1.47 points are reached without attention."""
    found = {(s.data, s.attention): s for s in position_shares()}
    small, large = found["cifar10", "softmax"], found["cifar100", "softmax"]
    assert (total(small.position), total(small.gain)) == (0.185, 0.64)
    assert (total(large.position), total(large.gain)) == (0.35, 1.47)
    for share in found.values():
        assert total(share.position) + total(share.beyond) == pytest.approx(total(share.gain))
        assert share.share == pytest.approx(total(share.position) / total(share.gain))


@pytest.mark.parametrize(
    ("name", "data", "difference", "answer"),
    [
        ("direction only: softmax − scaled", "cifar10", 0.34, LARGER),
        ("direction only: softmax − scaled", "cifar100", 0.76, LARGER),
        ("magnitude only: softmax − scaled", "cifar100", 0.06, SAME),
        ("softmax: He − 0.01", "cifar10", 0.18, LARGER),
        ("scaled: 0.01 − He", "cifar10", 0.05, SAME),
        ("scaled: 0.01 − He", "cifar100", 0.09, SAME),
        ("scaled: 0.01 − He", TINY, 0.26, SAME),
        ("loss without magnitudes: softmax − scaled", "cifar10", 0.25, LARGER),
        ("loss without magnitudes: softmax − scaled", "cifar100", 0.17, SAME),
        ("loss at the other init: softmax − scaled", "cifar100", 0.61, LARGER),
        ("1 head: softmax − scaled", "cifar10", 0.09, SAME),
        ("4 heads: softmax − scaled", "cifar10", 0.19, LARGER),
        ("scaled: magnitude only − direction only", "cifar10", 0.09, SAME),
        ("PreResNet110: softmax − scaled", "cifar100", 0.66, LARGER),
        ("PreResNet50: softmax − scaled", TINY, 0.375, SAME),
    ],
)
def test_answers_of_the_printed_contrasts(
    name: str, data: str, difference: float, answer: str
) -> None:
    """A printed difference is larger than twice its noise, or cannot be told from the placebo."""
    found = _contrast(name, data)
    assert found.difference == difference
    assert found.answer == answer
    assert (abs(difference) > 2 * found.noise) == (answer == LARGER)


def test_every_table_and_data_set_has_its_contrasts() -> None:
    """Table 1 has 6 on each CIFAR, Table 2 6 on each data set, Table 3 7, Table 4 one per row."""
    counts: dict[tuple[str, str], int] = {}
    for item in printed_contrasts():
        place = item.table.split("_")[0], item.data
        counts[place] = counts.get(place, 0) + 1
    assert counts == {
        **{("table1", data): 6 for data in CIFAR},
        **{("table2", data): 6 for data in DATA},
        **{("table3", data): 7 for data in CIFAR},
        **{("table4", data): rows for data, rows in zip(DATA, (3, 4, 1), strict=True)},
    }


def test_p_counts_the_placebos() -> None:
    """A difference of 2.776 noises has p = 0.05 with 4 placebos, of 12.71 noises with one."""
    for placebo_count, quantile in ((4, 2.7764), (1, 12.7062)):
        found = Noise(run_sd=1.0, placebos=placebo_count)
        terms = (1, Mean(quantile * noise_factor(pair_of_means(10)), 10)), (-1, Mean(0.0, 10))
        assert found.p(terms) == pytest.approx(0.05, abs=1e-4)


def test_five_of_six_gaps_are_underpowered() -> None:
    """With 10 seeds only the 1-head gap on CIFAR-100 has 80 % power at the assumed deviations."""
    assert [item.needed for item in design_powers()] == [57, 12, 14, 7, 11, 22]
    strong = [(d.data, d.heads) for d in design_powers() if d.power >= 0.8]
    assert strong == [("cifar100", 1)]
