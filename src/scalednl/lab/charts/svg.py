"""The few shapes that charts are made of, and their colours."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("blue", "red", "green", "purple", "grey")
"""Distinct without red-green vision too; each is drawn with a marker of its own"""
NARROW, LINE, LETTER = 340, 19, 6.6
"""Width of charts for a phone; height of a line of text; width of a letter, on average"""
DASHES = {"blue": "", "red": "7 3", "green": "", "purple": "2 3", "grey": "4 4"}
_STYLE = """
.scalednl-chart{color:var(--chart-ink,#1f2328);--faint:var(--chart-faint,#d5d9de);
--blue:#0067a8;--red:#c44e00;--green:#00805d;--purple:#a23f83;--grey:#6b7480;
font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
@media(prefers-color-scheme:dark){.scalednl-chart{color:var(--chart-ink,#e6e9ed);
--faint:var(--chart-faint,#3a4149);--blue:#5db4f2;--red:#ff9250;--green:#3ecf9f;--purple:#e48cc8;
--grey:#9aa4b0}}
.scalednl-chart text{fill:currentColor}
.scalednl-chart .title{font-size:15px;font-weight:600}
.scalednl-chart .soft{opacity:.72}
.scalednl-chart .grid{stroke:var(--faint);stroke-width:1}
"""


@dataclass(frozen=True)
class Axis:
    """A scale from values to positions; logarithmic or linear."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        """The position of a value."""
        low, high = (self._flat(v) for v in (self.low, self.high))
        share = (self._flat(value) - low) / ((high - low) or 1)
        return self.start + share * (self.end - self.start)

    def _flat(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self) -> list[float]:
        """Round values within the scale, few enough to be read."""
        if not self.log:
            return _linear_ticks(self.low, self.high)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = (1,) if last - first > 2 else (1, 2, 5)
        values = [s * 10.0**e for e in range(first, last + 1) for s in steps]
        return [v for v in values if self.low * 0.999 <= v <= self.high * 1.001]


def _linear_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    if high <= low:
        return [low]
    rough = (high - low) / wanted
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(s * scale for s in (1, 2, 2.5, 5, 10) if s * scale >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def document(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """A complete SVG file; screen readers read the title."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="scalednl-chart" role="img" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'aria-label="{escape(title)}"><style>{_STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    kind: str = "",
    colour: str = "",
    turn: bool = False,
) -> str:
    """Words at a place; `turn` writes them upwards."""
    rest = f' class="{kind}"' if kind else ""
    rest += f' style="fill:var(--{colour})"' if colour else ""
    rest += f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{rest}>{escape(words)}</text>'


def paragraph(
    y: float, words: str, *, kind: str = "", narrow: bool = False, width: float | None = None
) -> list[str]:
    """Words from the left edge on; in lines that fit a width, or a narrow chart."""
    room = NARROW if narrow else width
    letters = math.inf if room is None else (room - 24) / (8.6 if kind == "title" else LETTER)
    lines = [words] if len(words) <= letters else textwrap.wrap(words, int(letters))
    return [text(12, y + LINE * number, part, kind=kind) for number, part in enumerate(lines)]


def line(x1: float, y1: float, x2: float, y2: float, *, kind: str = "grid", style: str = "") -> str:
    """A straight line."""
    rest = f' style="{style}"' if style else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"{rest}/>'


def path(points: Sequence[tuple[float, float]], colour: str, dash: str = "") -> str:
    """A line through points."""
    where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f";stroke-dasharray:{dash}" if dash else ""
    return (
        f'<polyline points="{where}" fill="none" '
        f'style="stroke:var(--{colour});stroke-width:2{dashes}"/>'
    )


def marker(x: float, y: float, colour: str, *, hollow: bool = False, says: str = "") -> str:
    """A colour's own marker; `says` appears under the pointer."""
    style = f"stroke:var(--{colour});stroke-width:1.6;fill:"
    style += "none" if hollow else f"var(--{colour})"
    title = f"<title>{escape(says)}</title>" if says else ""
    return f'<path d="{_shape(x, y, colour)}" style="{style}">{title}</path>'


def _shape(x: float, y: float, colour: str) -> str:
    r = 4.2
    if colour == "red":
        return f"M{x - r:.1f},{y - r:.1f}h{2 * r}v{2 * r}h{-2 * r}z"
    if colour == "purple":
        half = f"{1.3 * r:.1f}"
        return f"M{x:.1f},{y - 1.3 * r:.1f}l{half},{half}l-{half},{half}l-{half},-{half}z"
    if colour == "blue":
        return f"M{x:.1f},{y - 1.2 * r:.1f}l{1.25 * r:.2f},{2.1 * r:.2f}h{-2.5 * r:.2f}z"
    return f"M{x - r:.1f},{y:.1f}a{r},{r} 0 1 0 {2 * r},0a{r},{r} 0 1 0 {-2 * r},0z"


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """The same places, moved apart as little as it takes to leave `gap` between neighbours."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    groups: list[tuple[float, list[int]]] = []
    for index in order:
        groups.append((places[index], [index]))
        while len(groups) > 1 and _reach(groups[-2], gap) > groups[-1][0] - _half(groups[-1], gap):
            (low, first), (high, second) = groups[-2:]
            members = first + second
            middle = (low * len(first) + high * len(second)) / len(members)
            groups[-2:] = [(middle, members)]
    moved = [0.0] * len(places)
    for middle, members in groups:
        for rank, index in enumerate(members):
            moved[index] = middle + (rank - (len(members) - 1) / 2) * gap
    return moved


def _half(group: tuple[float, list[int]], gap: float) -> float:
    return (len(group[1]) - 1) / 2 * gap


def _reach(group: tuple[float, list[int]], gap: float) -> float:
    return group[0] + _half(group, gap) + gap
