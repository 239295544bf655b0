"""Base of every page: charts in their places, scripts and the policy that lets only them run."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from wattstep.report.html.charts import Bar, Chart
from wattstep.store.folder import replacing

_SCRIPTS: Final = ("unpack.js", "images.js", "report.js")  # of every page
_LEVEL: Final = 6  # of the compression: 9 takes twice as long for 1 % less


@dataclass(frozen=True, kw_only=True)
class Plot:
    """The place of a chart in the page; the chart itself is in the block of data.

    Attributes:
        id: The id of the element.
        height: Its height in pixels.
        title: Title of the chart.
        statuses: The statuses of the figures in it.
    """

    id: str
    height: int
    title: str
    statuses: tuple[str, ...]


def environment(*packages: str) -> Environment:
    """Templates of some packages, the first that has one; texts are escaped, no name may be unknown."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["packed"] = packed_json
    return templates


def template(name: str) -> Template:
    """A template of a report."""
    return environment("wattstep.report.html").get_template(name)


class Plots:
    """The charts of a page, in the order in which they were placed."""

    def __init__(self) -> None:
        self.placed: dict[str, Chart] = {}

    def place(self, chart: Chart | None, title: str, bars: Sequence[Bar] = ()) -> Plot | None:
        """Keeps a chart for the block of data; None where there is nothing to draw."""
        if chart is None:
            return None
        name = f"chart-{len(self.placed) + 1}"
        self.placed[name] = chart
        statuses = tuple(dict.fromkeys(bar.shown.status for bar in bars))
        height = int(chart["layout"]["height"])
        return Plot(id=name, height=height, title=title, statuses=statuses)


def packed_json(thing: object) -> Markup:
    """JSON for `unpack.js`: what stands in the page is none of its text, whatever that is."""
    return packed(json.dumps(thing, allow_nan=False, separators=(",", ":")).encode())


def own_file(name: str) -> str:
    """A template, style or script that comes with the reports."""
    return (files("wattstep.report.html") / "templates" / name).read_text(encoding="utf-8")


def plotting_library() -> Markup:
    """plotly.js as a page runs it, with scatter and bar charts alone: see vendor/README.md."""
    source = files("wattstep.report.html") / "vendor" / "plotly-basic.min.js"
    return script_source(source.read_text(encoding="utf-8"))


def packed(data: bytes) -> Markup:
    """Bytes as `unpack.js` reads them: deflated, in base64."""
    return Markup(base64.b64encode(zlib.compress(data, _LEVEL)).decode("ascii"))


def code_of(plots: Plots, *names: str) -> dict[str, Any]:
    """Variables of the template `scripts.html`: charts, scripts, and the policy that lets only them run.

    Args:
        plots: The charts of the page; the plotting library is there where there is one.
        names: Scripts that the page needs beside those of every page.
    """
    scripts = [script_source(own_file(name)) for name in (*_SCRIPTS, *names)]
    plotly = plotting_library() if plots.placed else ""
    return {
        "charts": packed_json(plots.placed),
        "scripts": scripts,
        "plotly": packed(plotly.encode()) if plotly else "",
        "license": " ".join(plotly[: plotly.find("*/")].replace("*", "").strip(" /\n").split()),
        "policy": content_policy([*scripts, plotly] if plotly else scripts),
    }


def script_source(source: str) -> Markup:
    """A script as it stands in a page."""
    # A browser reads CR LF as LF before it computes the hash that the policy is about.
    return Markup(source.replace("\r\n", "\n").replace("\r", "\n"))


def content_policy(scripts: Iterable[str]) -> str:
    """A content security policy: these scripts and no other, and no request to anywhere."""
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def write_at_once(text: str, path: Path) -> None:
    """Writes a page in one piece or not at all; its folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        # Names may hold halves of surrogate pairs, which UTF-8 cannot.
        file.write(text.encode(errors="replace"))
