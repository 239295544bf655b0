"""The plotting library that comes with the pages is the one that its README names."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files

from wattstep.report.html.page import plotting_library


def test_the_plotting_library_is_the_file_that_its_readme_names() -> None:
    vendor = files("wattstep.report.html") / "vendor"
    library = (vendor / "plotly-basic.min.js").read_bytes()
    readme = (vendor / "README.md").read_text()
    assert re.findall(r"sha256  (\w{64})", readme) == [hashlib.sha256(library).hexdigest()]
    (version,) = re.findall(r"plotly\.js ([\d.]+) ", readme)
    assert f"plotly.js (basic - minified) v{version}".encode() in library[:200]
    assert "MIT" in (vendor / "LICENSE").read_text()


def test_the_plotting_library_stays_within_its_script_element() -> None:
    assert "</script" not in plotting_library().lower()
