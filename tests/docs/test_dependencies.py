"""Every library that the default brings is named with its licence, pinned, and under one that asks for no more than that."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from docs import dependencies

ROOT = Path(__file__).parents[2]
PERMISSIVE = {
    "MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "ISC", "PSF-2.0", "0BSD", "Zlib", "CC0-1.0",
    "Unlicense", "MIT-0",
}  # fmt: skip
components = dependencies.components()
NAMES = [each.name for each in components]


def pinned() -> dict[str, list[str]]:
    """Versions of `constraints.txt` by name."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            (only,) = requirement.specifier
            found.setdefault(canonicalize_name(requirement.name), []).append(only.version)
    return found


def test_the_default_has_what_it_asks_for_and_little_more() -> None:
    assert {"numpy", "pyarrow", "scipy", "typer", "rich", "Jinja2", "threadpoolctl"} <= set(NAMES)
    assert len(NAMES) < 25  # whoever adds one looks at what comes with it


@pytest.mark.parametrize("name", NAMES)
def test_each_library_is_under_a_licence_that_asks_for_no_more_than_to_be_named(name: str) -> None:
    (license,) = (each.license for each in components if each.name == name)
    assert set(re.split(r" (?:AND|OR|WITH) ", re.sub("[()]", "", license))) <= PERMISSIVE


def test_the_page_names_every_library_with_its_licence() -> None:
    page = (ROOT / "docs" / "licenses.md").read_text()
    rows = {
        row[1].strip().lower(): row[2].strip()
        for row in (line.split("|") for line in page.splitlines() if line.startswith("| "))
        if len(row) == 4
    }
    for each in components:
        assert rows[each.name.lower()] == each.license


@pytest.mark.parametrize("name", NAMES)
def test_each_library_is_pinned(name: str) -> None:
    assert canonicalize_name(name) in pinned()


def test_what_builds_it_is_pinned_to_the_version_that_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for line in project["build-system"]["requires"]:
        requirement = Requirement(line)
        (only,) = requirement.specifier
        assert only.operator == "=="
        assert only.version in pinned()[requirement.name]


def test_the_bill_of_materials_has_every_library_and_what_it_needs() -> None:
    bill = json.loads(json.dumps(dependencies.bill()))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    references = {part["bom-ref"] for part in bill["components"]}
    assert len(references) == len(NAMES)
    assert all(
        part["licenses"] and part["purl"].startswith("pkg:pypi/") for part in bill["components"]
    )
    needed = {row["ref"]: row["dependsOn"] for row in bill["dependencies"]}
    own = bill["metadata"]["component"]["bom-ref"]
    assert references | {own} == set(needed)
    assert set().union(*needed.values()) == references  # nothing is there that nobody needs


HASHED = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[\w.]+)(?P<marker> ; [^\\]+?)? \\$", re.MULTILINE
)


def test_hashes_are_of_the_versions_that_are_pinned() -> None:
    text = (ROOT / "hashes.txt").read_text()
    entries = [(m["name"], m["version"]) for m in HASHED.finditer(text)]
    assert {canonicalize_name(name) for name in NAMES} <= {canonicalize_name(n) for n, _ in entries}
    for name, version in entries:
        assert version in pinned()[canonicalize_name(name)]
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) >= len(entries)


def test_the_package_holds_every_file_that_is_no_code() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["wattstep"]
    package = ROOT / "src" / "wattstep"
    packed = {path for pattern in patterns for path in package.glob(pattern)}
    files = {
        path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    assert {path for path in files if path.suffix != ".py"} - packed == set()
