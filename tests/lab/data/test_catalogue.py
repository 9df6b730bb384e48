"""The catalogue covers every data set that is downloaded."""

import pytest

from scalednl.lab.config.data_sets import DATA_SETS
from scalednl.lab.data.catalogue import CATALOGUE, CIFAR10, CIFAR100
from scalednl.lab.data.cifar import Cifar


def test_every_data_set_that_is_not_generated_has_its_sources() -> None:
    """Names, facts and addresses are there for exactly these data sets."""
    names = {name for name, facts in DATA_SETS.items() if not facts.is_generated}
    assert CATALOGUE.keys() == names
    for name, data in CATALOGUE.items():
        assert data.facts is DATA_SETS[name]
        assert data.urls[0].startswith("http")
        assert data.download_bytes > 10**8


@pytest.mark.parametrize("data", [CIFAR10, CIFAR100], ids=["cifar10", "cifar100"])
def test_every_binary_file_has_its_pickle(data: Cifar) -> None:
    """The catalogue has one hash for each file of both versions, all different."""
    assert [f"{name}.bin" for name in data.pickle_md5] == list(data.binary_md5)
    sums = {*data.binary_md5.values(), *data.pickle_md5.values()}
    assert len(sums) == 2 * len(data.binary_md5)
    assert all(len(md5) == 32 for md5 in sums)
