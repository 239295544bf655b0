"""Names of modules and files in docstrings and documents lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "wattstep"
ROOT = PACKAGE.parents[1]
# Rooms; but these two are variables' and sections' names as well.
ROOMS = {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"run", "device"}
FORMER = {"analysis", "fleet", "insights", "places", "records", "reporting", "sampling", "targets"}
QUOTED = re.compile(r"`([a-z_]+(?:[./][A-Za-z_0-9]+)+)`")
FILES = re.compile(r"\.(json|parquet|txt|csv|toml|html|md|js|svg)$")  # of a run, or of a user


def pointers() -> Iterator[tuple[str, str]]:
    """Where each stands, and the name as it is quoted."""
    documents = [ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/*.md"), *PACKAGE.rglob("*.py")]
    for path in documents:
        for quoted in QUOTED.findall(path.read_text(encoding="utf-8")):
            yield str(path.relative_to(ROOT)), quoted


def leads_to_a_file(where: str, name: str) -> bool:
    near = (ROOT / where).parent
    return any(
        (base / name).exists() for base in (ROOT, PACKAGE.parent, PACKAGE, near, near.parent)
    )


def leads_to_a_name(where: str, name: str) -> bool:
    """A module of the package, or what one has of that name."""
    parts = name.split(".")
    here = (ROOT / where).parent
    bases = [PACKAGE, *(base for base in (here, *here.parents) if PACKAGE in base.parents)]
    for base in bases:
        for length in range(len(parts), 0, -1):
            module = base.joinpath(*parts[:length])
            files = [module.with_suffix(".py"), module / "__init__.py"]
            for file in (file for file in files if file.exists()):
                rest = parts[length:]
                if not rest or re.search(rf"\b{rest[0]}\b", file.read_text(encoding="utf-8")):
                    return True
    return False


def test_what_docstrings_and_documents_point_to_is_there() -> None:
    lost = []
    for where, name in pointers():
        if name.endswith(".py") and "/" in name:
            found = "NAME" in name or leads_to_a_file(where, name)
        elif (
            "/" in name
            or FILES.search(name)
            or not where.endswith(".py")
            or name.split(".")[0] not in ROOMS | FORMER
        ):
            continue
        else:
            found = leads_to_a_name(where, name)
        if not found:
            lost.append(f"{where}: {name}")
    assert not lost, lost
