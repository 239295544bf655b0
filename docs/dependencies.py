"""Libraries that wattstep is installed with: their licences (docs/licenses.md), and a bill of materials.

python docs/dependencies.py licenses docs/licenses.md     writes the list of the page anew
python docs/dependencies.py sbom FILE                     CycloneDX 1.5, of what is installed here
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
SELF = "wattstep"
BEGIN, END = "<!-- licenses: begin -->\n", "<!-- licenses: end -->\n"
# What a licence is called in metadata that has no SPDX expression (PEP 639).
SPDX = {
    "Apache Software License": "Apache-2.0", "Apache License 2.0": "Apache-2.0", "Apache 2.0": "Apache-2.0",
    "MIT License": "MIT", "MIT": "MIT", "BSD License": "BSD-3-Clause", "BSD": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC", "Python Software Foundation License": "PSF-2.0",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, order=True)
class Component:
    """A library that is installed.

    Attributes:
        name: As its registry spells it.
        version: Which one.
        license: As an SPDX expression, or in the words of its metadata.
        requires: Names of those that it needs here.
    """

    name: str
    version: str
    license: str
    requires: tuple[str, ...] = ()


def components(extras: Sequence[str] = ()) -> list[Component]:
    """All that an installation of wattstep brings here, itself left out, by name.

    Args:
        extras: Of wattstep's extras; none: what `pip install wattstep` brings.
    """
    known: dict[str, Component] = {}
    waiting = [*_needed(distribution(SELF), extras)]
    while waiting:
        name, wanted = waiting.pop()
        if name in known:
            continue
        try:
            found = distribution(name)
        except PackageNotFoundError:  # one that only another system needs
            continue
        needed = [*_needed(found, wanted)]
        known[name] = Component(
            name=found.metadata["Name"], version=found.version, license=license_of(found),
            requires=tuple(sorted({each for each, _ in needed})),
        )  # fmt: skip
        waiting += needed
    return sorted(known.values(), key=lambda each: each.name.lower())


def _needed(found: Distribution, extras: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names of what a library needs here, each with the extras that it is wanted with."""
    for line in found.requires or ():
        requirement = Requirement(line)
        wanted = [{"extra": extra} for extra in (*extras, "")]
        if requirement.marker is None or any(map(requirement.marker.evaluate, wanted)):
            yield canonicalize_name(requirement.name), tuple(requirement.extras)


def license_of(found: Distribution) -> str:
    """Licence of a library, by its metadata."""
    metadata = found.metadata
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classified = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier") or ()
        if line.startswith("License :: ") and line != "License :: OSI Approved"
    ]
    words = classified or [str(metadata.get("License") or "").strip().split("\n")[0]]
    return " OR ".join(sorted({SPDX.get(each, each) for each in words if each})) or "not told"


def listed() -> str:
    """The default libraries as a table of Markdown."""
    rows = [f"| {each.name} | {each.license} |" for each in components()]
    return "\n".join(["", "| library | licence |", "|---|---|", *rows, "", ""])


def document(text: str) -> str:
    """The page with the list as it should be."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + listed() + END + rest.partition(END)[2]


def bill(extras: Sequence[str] = ()) -> dict[str, Any]:
    """A bill of materials: CycloneDX 1.5 as JSON."""
    own = distribution(SELF)
    parts = components(extras)
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([[p.name, p.version] for p in parts]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": _component(SELF, own.version, license_of(own), "application")},
        "components": [_component(p.name, p.version, p.license, "library") for p in parts],
        "dependencies": [
            _depends(SELF, own.version, [each for each, _ in _needed(own, extras)], parts),
            *(_depends(p.name, p.version, p.requires, parts) for p in parts),
        ],
    }


def _component(name: str, version: str, license: str, kind: str) -> dict[str, Any]:
    spdx = re.fullmatch(r"[\w.+-]+(?: (?:OR|AND|WITH) [\w.+-]+)*", license)
    told = {"expression": license} if spdx else {"license": {"name": license}}
    return {
        "type": kind, "bom-ref": _url(name, version), "name": name, "version": version,
        "purl": _url(name, version), "licenses": [told],
    }  # fmt: skip


def _depends(
    name: str, version: str, needed: Sequence[str], parts: Sequence[Component]
) -> dict[str, Any]:
    urls = {canonicalize_name(part.name): _url(part.name, part.version) for part in parts}
    return {
        "ref": _url(name, version),
        "dependsOn": sorted({urls[each] for each in needed if each in urls}),
    }


def _url(name: str, version: str) -> str:
    """Package URL."""
    return f"pkg:pypi/{canonicalize_name(name)}@{version}"


def main() -> None:
    """Writes the page, or the bill."""
    what, path = sys.argv[1], Path(sys.argv[2])
    if what == "licenses":
        path.write_text(document(path.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        path.write_text(json.dumps(bill(sys.argv[3:]), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
