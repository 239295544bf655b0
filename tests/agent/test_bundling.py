"""The one file is put together from modules that recorders share: what is used of them, and nothing twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.refusals import refused

from wattstep.remote.agent import bundling
from wattstep.remote.agent.bundling import bundle
from wattstep.remote.agent.making import bare_agent


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of wattstep's."""
    monkeypatch.setattr(bundling, "_ROOT", tmp_path)
    (tmp_path / "first.py").write_text("import time\n\n\nclass Late:\n    pass\n")
    return tmp_path


def made(folder: Path, **texts: str) -> str:
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return bundle("wattstep.entry", "wattstep.first")


def test_what_is_used_comes_once_and_without_annotations(modules: Path) -> None:
    text = made(
        modules,
        entry=(
            '"""Says it."""\nfrom __future__ import annotations\nfrom wattstep.shared import area\n'
            "from wattstep.types import Size\n\n\n"
            "def main(size: Size | None = None) -> int:\n    return area(2, 3)\n\n\n"
            'if __name__ == "__main__":\n    print(main())\n'
        ),
        shared=(
            "import os\nimport math\nfrom typing import Final\nfrom wattstep.types import Size\n\n"
            "# Of a rectangle.\nFACTOR: Final = 1\nUNUSED: Size | None = os.environ\n\n\n"
            "class Kept:\n    value: int\n    size: int | None = None\n\n\n"
            "def area(a: float, *, b: 'float' = 0) -> float:  # so\n"
            "    kept: Kept | None = Kept()\n    return math.floor(a * b * FACTOR)\n"
        ),
    )
    assert text.startswith('"""Says it."""\n')
    assert "# Of a rectangle.\nFACTOR = 1\n" in text
    assert "def area(a, *, b = 0):  # so\n    kept = Kept()\n" in text
    assert "class Kept:\n    \n    size = None\n" in text
    assert text.index("def area") < text.index("def main(size = None):")
    for left_out in ("UNUSED", "os", "Size", "Final", "->"):
        assert left_out not in text.split()
    namespace = {"__name__": "there"}
    exec(text.replace("area(2, 3)", "area(2, b=3)"), namespace)
    assert namespace["main"]() == 6  # type: ignore[operator]


def test_a_name_for_two_things_is_refused(modules: Path) -> None:
    entry = (
        "from wattstep.one import first\nfrom wattstep.two import second\n\nprint(first, second)\n"
    )
    one, two = "LIMIT = 1\nfirst = LIMIT\n", "LIMIT = 2\nsecond = LIMIT\n"
    with refused("bundled-name-clash", "wattstep.two", "LIMIT", "wattstep.one"):
        made(modules, entry=entry, one=one, two=two)
    with refused("bundled-name-clash", "math", "wattstep"):
        made(
            modules, entry=entry, one="math = 1\nfirst = math\n", two="import math\nsecond = math\n"
        )


def test_a_name_that_is_imported_under_another_is_refused(modules: Path) -> None:
    with refused("bundled-import", "wattstep.entry", "first"):
        made(
            modules,
            entry="from wattstep.one import first as other\nprint(other)\n",
            one="first = 1",
        )


def test_the_file_holds_one_recorder_s_parts() -> None:
    text = bare_agent()
    for part in (
        "StepMarker",
        "Schedule",
        "MarkJournal",
        "Windows",
        "Sampler",
        "StepPhases",
        "TorchHooks",
    ):
        assert len(re.findall(rf"\nclass {part}[(:]", text)) == 1
    assert text.count("\nMARK = struct.Struct(") == 1
