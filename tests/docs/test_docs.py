"""The documents name what there is: commands, files, workloads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.commands_table import document

from wattstep.cli import COMMANDS
from wattstep.engines import ENGINES
from wattstep.record.sensors import SENSORS
from wattstep.workloads import names

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")] if path.is_file()
)
FILE = re.compile(r"`((?:src|tests|docs|benchmarks)/[\w./-]+)`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_and_file_named_in_a_document_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    files = [name for name in FILE.findall(text) if "NAME" not in name]
    missing = [name for name in links if not (document.parent / name).exists()]
    missing += [name for name in files if not (ROOT / name).exists()]
    assert not missing


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_list_of_commands(command: str) -> None:
    assert f"`wattstep {command}`" in (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


def test_the_list_of_commands_is_what_the_commands_say() -> None:
    written = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert written == document(written), "python docs/commands_table.py docs/commands.md"


@pytest.mark.parametrize("workload", names())
def test_every_workload_is_in_the_readme(workload: str) -> None:
    assert f"`{workload}`" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", [COMMANDS, ENGINES, SENSORS])
def test_every_registered_thing_names_a_file_that_exists(table: dict[str, str]) -> None:
    for place in table.values():
        module = place.partition(":")[0]
        assert (ROOT / "src" / (module.replace(".", "/") + ".py")).exists()


def test_the_readme_names_the_two_commands_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in ("demo", "test", "check", "bench"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
        assert f"make {target}" in readme


def test_the_readme_leads_a_newcomer_to_a_result_and_is_no_wall() -> None:
    """What it is, an installation, one command, its output in twelve lines, three recipes, few links."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    about = readme.split("\n\n")[1]
    assert len(re.findall(r"[.?!](?:\s|$)", about)) <= 2
    assert readme.index("pip install") < readme.index("wattstep demo") < readme.index("report.png")
    install, output = readme.split("```")[1:4:2]
    assert install.split()[:2] == ["pip", "install"]
    lines = [line for line in output.splitlines() if line.strip() not in ("", "...")]
    assert len(lines) <= 12
    ways = readme[readme.index("## Three ways") : readme.index("## What it does")]
    assert ways.count("```") == 2 * 3
    rows = [line for line in readme.splitlines() if line.startswith("| ")]
    assert sum("torch.profiler" in row for row in rows) == 1
    assert readme[readme.index("## More") :].count("](") <= 10


def test_every_page_is_listed_where_one_looks_for_it() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert {name for name in pages if f"]({name})" not in index} == set()
