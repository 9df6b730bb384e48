"""Charts as self-contained SVG text, for light and dark pages. Imports no torch.

A page that embeds one may set `--chart-ink` (text) and `--chart-faint` (grid); otherwise both
follow the reader's colour scheme. Series differ in colour, marker and dash, and carry their names.
"""

from scalednl.lab.charts.dots import Dot, Row, dot_chart
from scalednl.lab.charts.intervals import Interval, interval_chart
from scalednl.lab.charts.lines import Curve, Plot, curve_chart, log_chart

__all__ = [
    "Curve",
    "Dot",
    "Interval",
    "Plot",
    "Row",
    "curve_chart",
    "dot_chart",
    "interval_chart",
    "log_chart",
]
