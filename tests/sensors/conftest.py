"""Trees to probe: recordings unpacked, trees made by hand; and the child's own reading of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from wattstep.record.sampling import child
from wattstep.schema.channel import Absent, Present, SensorRead

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "x86"
NOBODY = 65534

Tree = Callable[[Mapping[str, str]], Path]
Measure = Callable[[Present | Absent], dict[str, float]]


def unpack_ttar(archive: Path, into: Path) -> None:
    """Writes the files and links of a ttar archive below a folder."""
    lines = iter(archive.read_text().splitlines())
    for line in lines:
        key, _, value = line.partition(": ")
        if key == "Path":
            path = into / value
            path.parent.mkdir(parents=True, exist_ok=True)
        elif key == "SymlinkTo":
            path.symlink_to(value)
        elif key == "Lines":
            path.write_text("".join(next(lines) + "\n" for _ in range(int(value))))


@pytest.fixture
def node_exporter(tmp_path: Path) -> Path:
    unpack_ttar(RECORDINGS / "node_exporter.ttar", tmp_path)
    return tmp_path


@pytest.fixture
def procfs(tmp_path: Path) -> Path:
    unpack_ttar(RECORDINGS / "procfs.ttar", tmp_path)
    return tmp_path / "fixtures"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A function that writes files, given as path to text, and returns the root."""

    def write(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user of the machine may enter, as `tmp_path` is not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def without_privilege() -> Iterator[None]:
    """Gives up the rights of root for a while; nothing changes for other users."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def unprivileged() -> Callable[[], AbstractContextManager[None]]:
    return without_privilege


def read_once(read: SensorRead) -> list[int]:
    """What the sampler's child reads."""
    entry = {
        "path": read.path,
        "parser": read.parser,
        "arguments": list(read.arguments),
        "excluded": [],
    }
    return list(child.open_read(entry, [])())


@pytest.fixture
def measure() -> Measure:
    """A function that reads all of a sensor's channels through the child, in their units."""

    def values(found: Present | Absent) -> dict[str, float]:
        assert isinstance(found, Present), found
        return {
            channel.name: raw * channel.scale
            for read in found.reads
            for channel, raw in zip(read.channels, read_once(read), strict=True)
            if raw != child.MISSING
        }

    return values
