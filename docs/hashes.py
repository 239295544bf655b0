"""Writes hashes.txt: `python docs/hashes.py hashes.txt`; asks pip, which asks the registry.

Of each library of the default the version that `constraints.txt` pins, with the SHA-256 of the file
that pip takes on each system and Python that is meant.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
SYSTEMS = {
    "x86_64": ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "aarch64": ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
}  # fmt: skip
HEAD = """\
# The default's libraries with the hashes of the files that pip takes on Linux (x86-64, ARM64) with Python
# 3.10 to 3.13, made by docs/hashes.py:
#   pip install --require-hashes -r hashes.txt && pip install --no-deps .
"""


def wanted() -> list[str]:
    """What the project asks for by default."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(project["project"]["dependencies"])


def files(python: str, platforms: tuple[str, ...]) -> dict[tuple[str, str], str]:
    """Hash of the file that pip takes there, by name and version."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        # Markers are of the Python that runs pip: what only an older one needs is added by hand.
        lines = [line.partition(";")[0] for line in wanted() if "<" not in line or python == "3.10"]
        subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run",
                "--ignore-installed", "--only-binary=:all:", "--python-version", python, "--target", folder,
                "--report", str(report), "-c", str(_constraints(python, Path(folder))),
                *(word for platform in platforms for word in ("--platform", platform)), *lines,
            ],
            check=True,
        )  # fmt: skip
        document = json.loads(report.read_text(encoding="utf-8"))
    return {
        (each["metadata"]["name"], each["metadata"]["version"]): each["download_info"][
            "archive_info"
        ]["hashes"]["sha256"]
        for each in document["install"]
    }


def _constraints(python: str, folder: Path) -> Path:
    """The pins that are meant for a Python, without their markers."""
    older = python == "3.10"
    lines = []
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        pin, _, marker = line.partition(";")
        if (
            line.startswith("#")
            or ("<" in marker) > older
            or (">=" in marker and "3.11" in marker and older)
        ):
            continue
        lines.append(pin.strip())
    path = folder / "constraints.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main() -> None:
    """Asks for each Python and system, and writes the file."""
    hashes: dict[tuple[str, str], set[str]] = {}
    of: dict[tuple[str, str], set[str]] = {}
    for python, platforms in product(PYTHONS, SYSTEMS.values()):
        for key, digest in files(python, platforms).items():
            hashes.setdefault(key, set()).add(digest)
            of.setdefault(key, set()).add(python)
    lines = []
    for (name, version), digests in sorted(
        hashes.items(), key=lambda item: (item[0][0].lower(), item[0][1])
    ):
        pythons = of[name, version]
        marker = ""
        if pythons == {PYTHONS[0]}:
            marker = ' ; python_version < "3.11"'
        elif PYTHONS[0] not in pythons:
            marker = ' ; python_version >= "3.11"'
        lines.append(f"{name}=={version}{marker} \\")
        lines += [f"    --hash=sha256:{digest} \\" for digest in sorted(digests)]
        lines[-1] = lines[-1].removesuffix(" \\")
    Path(sys.argv[1]).write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
