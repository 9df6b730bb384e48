"""Records of the benchmarks in this folder, beside those of `scalednl bench`."""

from dataclasses import dataclass

from scalednl.lab.records.bench import KINDS, BenchRecord, Kinds, Timing


@dataclass(frozen=True)
class Repeats:
    """How often each step was run."""

    repeats: int


@dataclass(frozen=True)
class PlannerShape:
    """A block and the map it is put on."""

    batch: int
    channels: int
    side: int
    embed: int
    heads: int
    training: bool

    @property
    def mode(self) -> str:
        """Training or evaluation."""
        return "training" if self.training else "evaluation"

    def __str__(self) -> str:
        return f"B{self.batch} C{self.channels} E{self.embed} h{self.heads} {self.side}x{self.side}"


@dataclass(frozen=True)
class PlannerRow:
    """The times of every order at one shape, and the planner's pick.

    `regret` is the pick's time over the fastest order's: 1 is a perfect pick.
    """

    shape: PlannerShape
    picked: str
    fastest: str
    regret: float
    error: float
    times: dict[str, Timing]


@dataclass(frozen=True, kw_only=True)
class PlannerRecord(BenchRecord):
    """What the planner picks, and what would have been fastest."""

    KIND = "planner"
    settings: Repeats
    rows: tuple[PlannerRow, ...]


@dataclass(frozen=True)
class LoopRow:
    """Steps of one recipe in the training loop and in a bare one."""

    recipe: str
    batch: int
    steps: int
    images_per_second: float
    speed_over_bare: float
    error: float
    """Of the weights after one step of each on the same batch"""
    bare: Timing
    train: Timing


@dataclass(frozen=True, kw_only=True)
class LoopRecord(BenchRecord):
    """What the training loop costs around forward and backward."""

    KIND = "train"
    settings: Repeats
    rows: tuple[LoopRow, ...]


@dataclass(frozen=True, kw_only=True)
class InferenceRecord(BenchRecord):
    """Inference on one large map: `auto`, the associative order, and two bare products."""

    KIND = "inference"
    settings: Repeats
    error: float
    auto: Timing
    associative: Timing
    floor: Timing


@dataclass(frozen=True, kw_only=True)
class ExportRecord(BenchRecord):
    """Exported blocks in onnxruntime."""

    KIND = "export"
    settings: Repeats
    scaled: Timing
    softmax: Timing


@dataclass(frozen=True)
class PeerRow:
    """One implementation's costs; `missing` says why there are none."""

    implementation: str
    attention: str
    parameters: int | None = None
    training: Timing | None = None
    training_ratio: float | None = None
    forward: Timing | None = None
    bytes_kept: int | None = None
    agreement: str = ""
    missing: str = ""


@dataclass(frozen=True)
class PeerShape:
    """All implementations on one map; the first row is our scaled block."""

    shape: tuple[int, ...]
    rows: tuple[PeerRow, ...]


@dataclass(frozen=True, kw_only=True)
class PeersRecord(BenchRecord):
    """Other implementations beside ours."""

    KIND = "peers"
    settings: Repeats
    shapes: tuple[PeerShape, ...]


_OWN = (InferenceRecord, PlannerRecord, LoopRecord, ExportRecord, PeersRecord)
ALL_KINDS: Kinds = {**KINDS, **{kind.KIND: kind for kind in _OWN}}
