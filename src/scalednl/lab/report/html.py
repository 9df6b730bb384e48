"""The page: one HTML file with everything in it."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib.resources import files

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape

from scalednl.lab.charts.cost import three_digits
from scalednl.lab.console import duration
from scalednl.lab.paper.rules import RULES
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.records.typed_json import plain_values
from scalednl.lab.report import formatting as words
from scalednl.lab.report.attention import (
    RunAttention,
    explorer,
    map_pictures,
    score_tables,
)
from scalednl.lab.report.content import Content
from scalednl.lab.report.story import GENERATED, tell
from scalednl.lab.report.verdict_chart import verdict_figures

FILTERS = (
    *(duration, words.percent, words.printed, words.spread, words.minus, words.optional),
    *(words.difference_pieces, words.difference_long, words.bound, words.interval, words.plain),
    *(words.claim_groups, words.place, words.needed, words.verdict_class, words.anchor),
    *(words.score_words, words.score_title, words.score_number),
    *(words.data_words, words.network_words, three_digits),
)
TEMPLATES = ("page", "story", "attention", "parts", "printed")


def render_page(content: Content) -> str:
    """The page of a content."""
    return rendered(
        "page.html.j2",
        content.attention,
        content=content,
        story=tell(content),
        generated=GENERATED,
        verdict_figures=verdict_figures(content.verdicts),
        sections=_sections(content),
        scales=list(SCALES.values()),
        by_name={run.name: run for run in content.runs},
        looks=RULES["lite"].looks,
        look_levels=RULES["lite"].levels,
    )


def rendered(template: str, attention: Sequence[RunAttention], **values: object) -> str:
    """A page with the style, the script, and records of attention."""
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shown = explorer(attention)
    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(_asset("style.css")),
            script=Markup(script),
            script_hash=f"sha256-{digest}",
            explorer=shown,
            explorer_json=Markup(_json_in_html(shown)),
            pictures=map_pictures(attention),
            score_tables=score_tables(attention),
            scores=words.SCORES,
            ablations=words.ABLATIONS,
            **values,
        )
    )


def _environment() -> Environment:
    names = [f"{name}.html.j2" for name in TEMPLATES]
    environment = Environment(
        loader=DictLoader({name: _asset(name) for name in names}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # With the escaping above, all that guards the page against the text of files.
        finalize=_limited,
    )
    for function in FILTERS:
        environment.filters[function.__name__] = function
    # Charts are our own SVG, whose words were escaped when they were drawn; pictures are base64.
    environment.filters["trusted"] = Markup
    environment.filters["code_spans"] = _code_spans
    return environment


def _limited(value: object) -> object:
    """Text is cut; what is marked as ours stays as it is."""
    return words.limited(value) if type(value) is str else value


def _code_spans(text: str) -> Markup:
    """Text whose `quoted` parts are set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _asset(name: str) -> str:
    return files("scalednl.lab.report").joinpath("page", name).read_text(encoding="utf-8")


def _json_in_html(value: object) -> str:
    """JSON that no HTML parser takes for a tag."""
    text = json.dumps(plain_values(value), allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _sections(content: Content) -> list[tuple[str, str]]:
    """Addresses and names of the sections that the page has, in its order."""
    run = [table.is_control for table in content.tables if table.has_ours]
    found = (
        ("claims", "Claims", content.verdicts),
        ("tables", "Tables and figures", False in run),
        ("controls", "Controls", True in run),
        ("trainings", "Trainings", content.others),
        ("cost", "Cost", content.costs or content.damaged_benchmarks),
        ("attention", "Where it looks", content.attention or content.damaged_attention),
        ("printed", "Printed numbers", True),
        ("not-run", "Not run here", len(run) < len(content.tables)),
        ("runs", "Runs", True),
        ("method", "How to read this", True),
    )
    return [(address, name) for address, name, is_there in found if is_there]
