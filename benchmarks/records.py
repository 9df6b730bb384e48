"""Records of the benchmarks in this folder, beside those of `scalednl bench`."""

from dataclasses import dataclass, field
from typing import Literal

from scalednl.lab.records.bench import KINDS, BenchRecord, Kinds
from scalednl.lab.records.floor import Floor
from scalednl.lab.records.timing import Timing


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
    floors: dict[str, Floor] = field(default_factory=dict)


@dataclass(frozen=True)
class Fit:
    """Constants of the planner, and the regret of what it would pick with them."""

    move: int
    narrow: int
    mean_regret: float
    worst_regret: float

    def __str__(self) -> str:
        return (
            f"move={self.move}, narrow={self.narrow}: mean regret x{self.mean_regret:.3f}, "
            f"worst x{self.worst_regret:.2f}"
        )


@dataclass(frozen=True, kw_only=True)
class PlannerRecord(BenchRecord):
    """What the planner picks, and what would have been fastest."""

    KIND = "planner"
    settings: Repeats
    rows: tuple[PlannerRow, ...]
    used: Fit | None = None
    """The constants that the planner had"""
    fitted: Fit | None = None
    """Those with the least mean regret on this device"""


@dataclass(frozen=True)
class LoopRow:
    """Steps of one recipe in the training loop and in a bare one."""

    recipe: str
    batch: int
    steps: int
    images_per_second: float
    speed_over_bare: float
    error: float
    """The relative error of the weights after one step of each on the same batch"""
    bare: Timing
    train: Timing
    floor: Floor | None = None
    train_default: Timing | None = None
    """`train` with glibc's default settings, which return freed memory to the system"""

    @property
    def speed_over_default(self) -> float | None:
        """Images per second over those with glibc's default settings; None if not measured."""
        return None if self.train_default is None else self.train_default.ratio(self.train)


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
    """Two bare products"""
    floors: dict[str, Floor] = field(default_factory=dict)
    """The floor of each method, by the machine's limit"""


@dataclass(frozen=True, kw_only=True)
class ExportRecord(BenchRecord):
    """Exported blocks in onnxruntime."""

    KIND = "export"
    settings: Repeats
    scaled: Timing
    softmax: Timing
    floors: dict[str, Floor] = field(default_factory=dict)


@dataclass(frozen=True)
class DeploymentRow:
    """One network on one image, by each way of running it."""

    network: str
    side: int
    error: float
    """The largest of any way, relative to float64"""
    times: dict[str, Timing]


@dataclass(frozen=True, kw_only=True)
class DeploymentRecord(BenchRecord):
    """Exported networks with blocks against eager."""

    KIND = "deployment"
    settings: Repeats
    rows: tuple[DeploymentRow, ...]


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
    floor: Floor | None = None
    """The floor of training"""


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


Dtype = Literal["float16", "bfloat16"]
Precision = Literal["autocast", "float32 norm", "half"]


@dataclass(frozen=True)
class HalfSettings:
    """What is searched, and what counts as right."""

    heads: int
    largest: float
    """The largest standard deviation of x that is tried; the smallest is 1"""
    tolerance: float
    """Relative error, of the branch and of every gradient, up to which a result is right"""


@dataclass(frozen=True)
class HalfInput:
    """The features that a block is tried on."""

    batch: int
    channels: int
    side: int
    inputs: Literal["after ReLU", "zero mean"]

    def __str__(self) -> str:
        return f"B{self.batch} C{self.channels} {self.side}x{self.side}, {self.inputs}"


@dataclass(frozen=True)
class HalfSetting:
    """What a method is tried on, and how."""

    features: HalfInput
    dtype: Dtype
    precision: Precision
    training: bool
    loss_scale: float = 1.0


@dataclass(frozen=True)
class HalfRow:
    """How large x may be for one method; None where a standard deviation of 1 is too large."""

    method: str
    setting: HalfSetting
    finite: float | None
    """The largest deviation up to which output and gradients are finite"""
    right: float | None
    """The largest deviation up to which they are also within the tolerance"""
    failure: str
    """What is wrong first, at the next deviation"""
    error: float | None
    """Relative error of the branch z - x at deviation 1; None where it is not finite"""
    gradient_error: float | None
    """The largest of any weight's gradient there; None in evaluation too"""


@dataclass(frozen=True, kw_only=True)
class HalfPrecisionRecord(BenchRecord):
    """What survives in float16 and bfloat16."""

    KIND = "half_precision"
    settings: HalfSettings
    agreement: dict[str, float]
    """Each method in float32 compared with its literal form in float64, values and gradients"""
    rows: tuple[HalfRow, ...]


_OWN = (
    *(InferenceRecord, PlannerRecord, LoopRecord, ExportRecord, PeersRecord),
    *(HalfPrecisionRecord, DeploymentRecord),
)
ALL_KINDS: Kinds = {**KINDS, **{kind.KIND: kind for kind in _OWN}}
