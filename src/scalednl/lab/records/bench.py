"""Records of benchmarks, for `scalednl bench`, the demo and the report. Imports no torch."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec

from scalednl.errors import CommandError
from scalednl.files import is_inside, read_bytes
from scalednl.lab.records.floor import Floor, MachineLimit
from scalednl.lab.records.methods import with_heads
from scalednl.lab.records.origin import Origin
from scalednl.lab.records.timing import Positive, Timing
from scalednl.lab.records.typed_json import decode_record

SCHEMA = "scalednl.bench."
RUN_FILES = ("config.json", "result.json", "failure.json")
LARGEST_FILE = 1 << 20
"""Bytes; the largest record there is has an eighth of it"""
FEW, SOME = msgspec.Meta(max_length=1000), msgspec.Meta(min_length=1, max_length=1000)
"""Rows of a record; the longest there is has a sixth of them"""
BUSY_LOAD, MOST_WAITED, MOST_DRIFT = 0.5, 0.05, 0.15
"""What a busy machine exceeds: processes per core at the start; share of time spent waiting for a
core; change of the rate of a large product until the end, as others on the same hardware cause"""
FITTED_SIZES = 3
"""The largest sizes of a map, to which exponents are fitted"""

Count = Annotated[int, msgspec.Meta(ge=1, le=10**15)]
Mode = Literal["forward", "forward + backward"]


@dataclass(frozen=True, kw_only=True)
class BenchRecord:
    """What every record of a benchmark carries."""

    KIND: ClassVar[str]
    schema: str
    origin: Origin
    device: str = "cpu"
    gpu: str | None = None
    """The name of the GPU; it multiplied in float32, without TF32"""
    quick: bool = False
    seconds: float | None = None
    load_at_start: float | None = None
    waited: float | None = None
    """Share of the timed seconds in which the process waited for a core; None if unknown"""
    limit: MachineLimit | None = None
    """What this machine could do at all when the run began; None in older records"""
    limit_at_end: MachineLimit | None = None
    """The same when it ended"""

    @property
    def disturbance(self) -> str:
        """What shows that others used the machine, in words; "" if nothing does.

        It is the waiting, or the load at the start where the waiting is unknown; and a machine that
        became faster or slower.
        """
        if self.limit is not None and self.limit_at_end is not None:
            rates = [2e-9 * one.multiply_adds_per_second for one in (self.limit, self.limit_at_end)]
            if abs(rates[1] / rates[0] - 1) > MOST_DRIFT:
                return f"float32 products ran at {rates[0]:.0f}, later {rates[1]:.0f} GFLOP/s"
        if self.waited is not None:
            share = f"threads waited for a core {self.waited:.0%} of the time"
            return share if self.waited > MOST_WAITED else ""
        load, cores = self.load_at_start or 0, self.origin.cores
        return f"load {load:.1f} on {cores} cores at the start" if load > BUSY_LOAD * cores else ""

    @property
    def is_disturbed(self) -> bool:
        """Whether others used the machine: then its times decide nothing."""
        return bool(self.disturbance)

    @property
    def where(self) -> str:
        """The machine and its threads, or the GPU, in words."""
        if self.gpu is not None:
            return f"{self.gpu}, float32 without TF32"
        return f"{self.origin.machine}, {self.origin.threads} threads"


@dataclass(frozen=True)
class Table3Settings:
    """How Table 3 was measured."""

    batch: int
    repeats: int
    blocks: int = 3
    layout: str = "channels_last"


@dataclass(frozen=True)
class Table3Row:
    """A training step of PreResNet-56; `heads` 0 is the network without blocks.

    Ratios are to that network; the paper's are None where it prints none.
    """

    method: str
    heads: int
    train_step: Timing
    train_step_ratio: Positive
    paper_train_step_ratio: Positive | None
    bytes_kept: Count
    bytes_kept_ratio: Positive
    peak_memory_bytes: Count
    peak_memory_ratio: Positive
    paper_memory_ratio: Positive | None
    error: float | None
    floor: Floor | None = None
    train_step_default: Timing | None = None
    """The same with glibc's default settings, which return freed memory to the system"""

    @property
    def name(self) -> str:
        """The method with its heads."""
        return with_heads(self.method, self.heads)


@dataclass(frozen=True, kw_only=True)
class Table3Record(BenchRecord):
    """What three blocks add to a PreResNet-56; the first row has no blocks."""

    KIND = "table3"
    settings: Table3Settings
    rows: Annotated[tuple[Table3Row, ...], SOME]


@dataclass(frozen=True)
class ScalingSettings:
    """How growth was measured."""

    batch: int
    heads: int
    repeats: int
    budget_bytes: int


@dataclass(frozen=True)
class ScalingPoint:
    """One method on one map in one mode; where `time` is None, `left_out` says why."""

    method: str
    mode: Mode
    channels: Count
    height: Count
    width: Count
    error: float | None = None
    time: Timing | None = None
    left_out: str = ""
    floor: Floor | None = None

    @property
    def pixels(self) -> int:
        """The pixels of one map."""
        return self.height * self.width


@dataclass(frozen=True)
class Exponent:
    """The power of the pixels with which time grows; None where too few sizes were timed."""

    method: str
    mode: Mode
    pixels_to_the_power: float | None


@dataclass(frozen=True)
class LargestMap:
    """The largest square map that one method can be trained on within the budget."""

    method: str
    side: int
    peak_bytes: int
    step_seconds: float
    measured: bool
    """Whether a step of that size was run; otherwise both numbers are extrapolated"""


@dataclass(frozen=True)
class TiledPass:
    """The memory of a pass in tiles, and its error against all pixels at once."""

    side: int
    tiles: int
    error: float
    peak_bytes: int
    tile_bytes: int


@dataclass(frozen=True, kw_only=True)
class ScalingRecord(BenchRecord):
    """How the cost of one block grows with pixels and channels."""

    KIND = "scaling"
    settings: ScalingSettings
    by_side: Annotated[tuple[ScalingPoint, ...], SOME]
    by_channels: Annotated[tuple[ScalingPoint, ...], FEW] = ()
    exponents: Annotated[tuple[Exponent, ...], FEW] = ()
    largest: Annotated[tuple[LargestMap, ...], FEW] = ()
    tiles: TiledPass | None = None

    def timed(self, method: str, mode: Mode) -> list[tuple[int, Timing]]:
        """Pixels and times of a method, from the smallest map to the largest."""
        mine = (p for p in self.by_side if (p.method, p.mode) == (method, mode))
        return sorted({p.pixels: p.time for p in mine if p.time is not None}.items())


@dataclass(frozen=True)
class OrdersSettings:
    """How the orders were measured."""

    repeats: int
    heads: int


@dataclass(frozen=True)
class OrdersRow:
    """One method on one map; ratios are to the associative order in its faster shape."""

    batch: int
    channels: int
    height: int
    width: int
    method: str
    order: str
    time: Timing
    time_over_associative: Positive
    bytes_kept: Count
    bytes_kept_over_associative: Positive
    error: float
    floor: Floor | None = None
    time_default: Timing | None = None
    """The same with glibc's default settings, which return freed memory to the system"""

    @property
    def place(self) -> str:
        """The map in short."""
        return f"B{self.batch} C{self.channels} {self.height}x{self.width}"


@dataclass(frozen=True, kw_only=True)
class OrdersRecord(BenchRecord):
    """One block in every order of multiplication."""

    KIND = "orders"
    settings: OrdersSettings
    rows: Annotated[tuple[OrdersRow, ...], SOME]


@dataclass(frozen=True)
class BlocksSettings:
    """How the demo's blocks were measured."""

    words: str
    repeats: int


@dataclass(frozen=True)
class BlocksRow:
    """One method in the demo's table."""

    method: str
    milliseconds: Positive
    bytes_kept: Count
    error: float


@dataclass(frozen=True, kw_only=True)
class BlocksRecord(BenchRecord):
    """The demo's table: one block in every form."""

    KIND = "blocks"
    settings: BlocksSettings
    rows: Annotated[tuple[BlocksRow, ...], SOME]


Kinds = Mapping[str, type[BenchRecord]]
KINDS: Kinds = {
    kind.KIND: kind for kind in (Table3Record, ScalingRecord, BlocksRecord, OrdersRecord)
}


@dataclass(frozen=True)
class _Header:
    schema: str


def read_bench_record(path: Path, kinds: Kinds = KINDS) -> BenchRecord | None:
    """The record in a file; None if the file is something else, `CommandError` if damaged."""
    try:
        content = read_bytes(path, LARGEST_FILE)
        schema = decode_record(content, _Header, path).schema
    except (CommandError, FileNotFoundError):
        return None
    kind = schema.removeprefix(SCHEMA).partition(".")[0]
    if not schema.startswith(SCHEMA) or kind not in kinds:
        return None
    return decode_record(content, kinds[kind], Path(path.name))


def find_bench_records(
    folders: Sequence[Path], kinds: Kinds = KINDS
) -> tuple[list[BenchRecord], list[str]]:
    """The newest record of each kind below the folders, and a sentence per damaged file.

    Full records come before quick ones, and kinds in the order of `kinds`. Links are not followed
    out of the folders.
    """
    newest: dict[str, BenchRecord] = {}
    damaged = []
    for path, top in (found for folder in folders for found in _json_files(folder)):
        try:
            if not is_inside(path, top):
                raise CommandError(f"{path.name} is a link out of the folder: copy the file")
            record = read_bench_record(path, kinds)
        except CommandError as error:
            damaged.append(str(error))
            continue
        if record is not None:
            before = newest.get(record.KIND)
            if before is None or _rank(record) > _rank(before):
                newest[record.KIND] = record
    return [newest[kind] for kind in kinds if kind in newest], damaged


def _json_files(folder: Path) -> list[tuple[Path, Path]]:
    """The JSON files in a folder and the folders in it, each with it; not those of runs."""
    with suppress(OSError):
        children = [path for path in sorted(folder.iterdir()) if not path.is_symlink()]
        places = [folder, *(path for path in children if path.is_dir())]
        globs = [sorted(place.glob("*.json")) for place in places]
        return [(p, folder) for paths in globs for p in paths if p.name not in RUN_FILES]
    return []


def _rank(record: BenchRecord) -> tuple[bool, str]:
    return not record.quick, record.origin.date
