"""One experiment: everything that decides its result, and nothing else."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import tyro

from scalednl.attentions import ATTENTIONS
from scalednl.config import TIMM, BlockConfig, StackConfig, is_foreign
from scalednl.errors import UsageError
from scalednl.lab.config.data_sets import DataFacts, find_data_set
from scalednl.lab.config.experiment_file import MOVED, file_values, read_values, used_options
from scalednl.lab.config.folder import FolderConfig, folder_path, is_folder
from scalednl.lab.config.generated import GENERATED, PairsConfig, RecallConfig
from scalednl.lab.config.limits import check_at_least
from scalednl.lab.user_code import code_of
from scalednl.networks import is_network
from scalednl.options import USUAL_POOL, default_init

Schedule = Literal["steps", "one-cycle"]
SCALED = "scaled"
Precision = Literal["fp32", "bf16", "fp16"]
PRECISIONS: dict[Precision, str] = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
"""As experiments name them, and as Lightning Fabric does"""

LATER = ("center", "reference_pixels")
"""Options of a block that came after the first records: their default does not count in a cell"""
_FROM_ONE = ("stage", "epochs", "batch", "accumulate", "limit", "test_limit", "test_last")
_SHARES = ("label_smoothing", "dropout")
_FROM_ZERO = ("blocks", "recalibrate", "lr", "momentum", "weight_decay", *_SHARES)


@dataclass(frozen=True)
class Experiment:
    """A network trained on a data set by a recipe, from a seed.

    Two experiments that differ only in their blocks start from the same backbone and see the same
    batches, so their seeds pair.
    """

    recipe: str = "custom"
    """The recipe that it was made from"""
    data: str = "cifar10"
    """A name of `scalednl data list`, or folder:PATH for images of your own"""
    model: str = "preresnet56"
    """A network of the paper, timm:NAME, or FILE.py:FUNCTION"""
    block: BlockConfig = field(default_factory=BlockConfig)
    """Options of the non-local blocks"""
    blocks: int = 3
    """How many blocks, back to back; 0 is the plain network"""
    stage: int = 2
    """Before the last residual block of which stage they go, counted from 1"""
    at: tuple[str, ...] = ()
    """Modules behind which blocks go in a network that is not the paper's, such as layer2"""
    position: bool | None = None
    """The fixed position encoding before the stack; None: on if there are blocks, but off in
    networks that are not the paper's"""
    dropout: float = 0.0
    """Share of numbers dropped between the convolutions of basic residual blocks"""
    epochs: int = 164
    batch: int = 128
    """Images per step, over all processes"""
    accumulate: int = 1
    """Parts that a step is computed in to save memory; batch norm sees the parts"""
    lr: float = 0.1
    """The largest learning rate"""
    schedule: Schedule = "steps"
    """"steps" divides by 10 at the milestones; "one-cycle" rises, then falls, step by step"""
    milestones: tuple[int, ...] = (81, 122)
    """Epochs, counted from 0"""
    momentum: float = 0.9
    weight_decay: float = 1e-4
    """On all parameters, including those of batch norm"""
    label_smoothing: float = 0.0
    """Share of the target that is spread evenly over all classes"""
    augment: bool = True
    """The data set's own augmentation"""
    limit: int | None = None
    """Training images, drawn by the seed with the classes in their proportions; None: all"""
    test_limit: int | None = None
    """Test images, the same for every seed"""
    test_last: int | None = None
    """Test only after this many last epochs; None: after every epoch"""
    finetune: bool = False
    """Start from the weights of a trained network without blocks"""
    weights: str | None = None
    """The run or weights file to fine-tune"""
    pairs: PairsConfig = field(default_factory=PairsConfig)
    """Options of the data set `pairs`; other data sets ignore them"""
    recall: RecallConfig = field(default_factory=RecallConfig)
    """Options of the data set `recall`; other data sets ignore them"""
    folder: FolderConfig = field(default_factory=FolderConfig)
    """Options of images in a folder of the user's own; other data sets ignore them"""
    recalibrate: int = 0
    """Training batches over which batch norm's statistics are estimated before a test; 0: off"""
    precision: Precision = "fp32"
    """bf16 and fp16 are mixed precision"""
    code: Annotated[tuple[str, ...], tyro.conf.Suppress] = ()
    """NAME=FINGERPRINT of the attention and the network that come from a file of the user's own"""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.blocks and ATTENTIONS[self.block.attention].form == "own":
            # Without blocks the attention says nothing, and a reader need not have its code.
            object.__setattr__(self, "block", replace(self.block, attention=SCALED))
        object.__setattr__(self, "code", code_of(self.own_names, self.code))
        if is_folder(self.data):
            folder_path(self.data)
        check_at_least(1, **{name: getattr(self, name) for name in _FROM_ONE})
        check_at_least(0, **{name: getattr(self, name) for name in _FROM_ZERO})
        for name in _SHARES:
            if (share := getattr(self, name)) >= 1:
                raise UsageError(f"--{name.replace('_', '-')} must be less than 1, got {share}")
        if (
            list(self.milestones) != sorted(set(self.milestones))
            or min(self.milestones, default=0) < 0
        ):
            raise UsageError(f"--milestones must be epochs in rising order, got {self.milestones}")
        if self.accumulate > self.batch:
            raise UsageError(
                f"--accumulate must be at most --batch {self.batch}, got {self.accumulate}"
            )
        self._check_place()
        if self.weights is not None and not self.finetune:
            raise UsageError(
                f"--weights {self.weights} is for fine-tuning: add --finetune, or take a recipe "
                "whose name ends in -finetune"
            )

    def _check_place(self) -> None:
        """Raise if an option says where blocks go in another kind of network."""
        if not is_foreign(self.model):
            if self.at and not is_network(self.model):
                raise UsageError(
                    f"no network is called {self.model!r}: use timm:NAME for one of timm, or "
                    "FILE.py:FUNCTION for one of your own"
                )
            if self.at:
                raise UsageError(
                    f"--at {' '.join(self.at)} is for networks that are not the paper's: use "
                    f"--stage with {self.model}"
                )
            return
        if self.stage != 2:
            raise UsageError(
                f"--stage {self.stage} is for the paper's networks: name modules of {self.model} "
                "with --at"
            )
        if self.dropout:
            raise UsageError(
                f"--dropout {self.dropout} is for the paper's networks: {self.model} has its own"
            )
        if self.at and not self.blocks and not self.position:
            raise UsageError(f"--at {' '.join(self.at)} needs blocks: leave out --at or --blocks 0")

    def is_tested_after(self, epoch: int) -> bool:
        """Whether the network is tested after an epoch, counted from 0."""
        return self.test_last is None or epoch >= self.epochs - self.test_last

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file, without the options of data sets not in use."""
        return file_values(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Experiment":
        """Undo `as_dict`; unknown or missing names and wrong types are a ValueError."""
        return read_values(values, cls)

    @property
    def own_names(self) -> tuple[str, ...]:
        """The attention and the network, where they come from a file of the user's own."""
        names = {
            self.block.attention: self.blocks > 0
            and ATTENTIONS[self.block.attention].form == "own",
            self.model: is_foreign(self.model) and not self.model.startswith(TIMM),
        }
        return tuple(name for name, is_own in names.items() if is_own)

    @property
    def digest(self) -> str:
        """Twelve letters that differ when anything does."""
        return _letters(self._identity())

    @cached_property
    def cell(self) -> str:
        """Twelve letters that runs share when only their seeds make their results differ."""
        return _letters(self.cell_values())

    def cell_values(self) -> dict[str, Any]:
        """What makes results differ, but for the seed.

        Left out are names, the paths of pretrained weights and of images, the order of products,
        and options that this experiment does not use.
        """
        values = self._identity()
        for name in ("recipe", "seed", "weights"):
            del values[name]
        for name in ("lr", "momentum", "weight_decay", "label_smoothing"):
            values[name] = float(values[name])
        if self.schedule == "one-cycle":
            del values["milestones"]
        if not self.recalibrate:
            del values["recalibrate"]
        values["position"] = self.has_position
        # Cells count the number of blocks and their stage where the first records have them.
        values["block"] |= {name: values.pop(name) for name in MOVED}
        if self.blocks == 0:
            del values["block"]
        else:
            del values["block"]["order"], values["block"]["memory"]
            for name in LATER:
                if values["block"][name] is None:
                    del values["block"][name]
            size = self.block.key_pool_size
            if isinstance(size, tuple) and len(set(size)) == 1:
                # Networks are over images, where (3, 3) is 3, and (2, 2) the default.
                values["block"]["key_pool_size"] = size[0]
                if size[0] == USUAL_POOL:
                    del values["block"]["key_pool_size"]
            if self.block.init is None:
                values["block"]["init"] = default_init(self.block.attention)
            elif not isinstance(self.block.init, str):
                values["block"]["init"] = float(self.block.init)
        return values

    def _identity(self) -> dict[str, Any]:
        """The plain values; images of the user's own count by their content, wherever they are."""
        values = self.as_dict()
        if is_folder(self.data) and self.folder.found is not None:
            values["data"], values["folder"]["found"] = "folder", self.folder.found.content
        return values

    @property
    def has_position(self) -> bool:
        """Whether the position encoding comes before the stack."""
        usual = self.blocks > 0 and not is_foreign(self.model)
        return usual if self.position is None else self.position

    @property
    def stack(self) -> StackConfig:
        """The blocks and their place, for `scalednl.create_model`."""
        return StackConfig(self.block, self.blocks, self.stage)

    @property
    def generated(self) -> PairsConfig | RecallConfig | None:
        """Options of the data set, if it is a generated one."""
        return getattr(self, self.data) if self.data in GENERATED else None

    @property
    def data_options(self) -> PairsConfig | RecallConfig | FolderConfig | None:
        """Options of the data set, if it has any."""
        return self.folder if is_folder(self.data) else self.generated

    @property
    def facts(self) -> DataFacts:
        """What is known of the data set."""
        return self.folder.facts(self.data) if is_folder(self.data) else find_data_set(self.data)

    @property
    def data_name(self) -> str:
        """A short name of the data set: without the path of a folder."""
        return self.facts.name if is_folder(self.data) else self.data

    def differences(self, other: "Experiment") -> list[str]:
        """What differs in another experiment, as `name is theirs, not ours`."""
        mine, theirs = used_options(self), used_options(other)
        changed = [key for key in mine if mine[key] != theirs.get(key, mine[key])]
        return [f"{key} is {theirs[key]}, not {mine[key]}" for key in changed]


def _letters(values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
