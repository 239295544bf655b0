"""What a program or library for Linux says of itself: for which processor, what it needs and gives."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.errors import InvalidValueError

# ABIs of Android by word size and the number of the processor ("e_machine"), as elf.h has them.
ABIS: Final = {
    (64, 183): "arm64-v8a",
    (32, 40): "armeabi-v7a",
    (64, 62): "x86_64",
    (32, 3): "x86",
    (64, 243): "riscv64",
}
_LOADED, _DYNAMIC, _INTERPRETER = 1, 2, 3  # kinds of segments
_NEEDED, _STRINGS = 1, 5  # kinds of entries of the dynamic table
_SYMBOLS = 11  # kind of the section of dynamic symbols
# By word size: header (from "e_phoff" on what is used), segment, entry, section, symbol.
_LAYOUTS: Final = {
    64: ("<32xQQ6xHHHH", "<IIQQQQQQ", "<qQ", "<IIQQQQIIQQ", "<IBBHQQ"),
    32: ("<28xII6xHHHH", "<IIIIIIII", "<iI", "<IIIIIIIIII", "<IIIBBH"),
}


@dataclass(frozen=True, kw_only=True)
class ElfFile:
    """A program or library.

    Attributes:
        path: Where it lies.
        abi: Of Android, e.g. "arm64-v8a"; or the processor's number in words where Android has none.
        interpreter: The loader that starts it, e.g. "/system/bin/linker64"; None: it is a library.
        needed: Names of the libraries that it loads.
        given: Names of functions and data that it has for others.
        wanted: Names that it wants of others; both are empty where its table of sections was taken out.
    """

    path: Path
    abi: str
    interpreter: str | None
    needed: tuple[str, ...]
    given: frozenset[str]
    wanted: frozenset[str]


def read_elf(path: Path) -> ElfFile:
    """Reads what a file says of itself.

    Raises:
        InvalidValueError: It cannot be read, or is no such file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidValueError(
            f"{path}: {(error.strerror or str(error)).lower()}", id="no-runner"
        ) from error
    try:
        return _parse(path, data)
    except (struct.error, ValueError, IndexError, StopIteration) as error:
        raise InvalidValueError(
            f"{path} is no program or library of Android (an ELF file)", id="not-a-program"
        ) from error


def _parse(path: Path, data: bytes) -> ElfFile:
    """As `read_elf`.

    Raises:
        ValueError: It is none; or struct.error, IndexError.
    """
    if data[:4] != b"\x7fELF" or data[4] not in (1, 2) or data[5] != 1:
        raise ValueError("no ELF file whose low bytes come first")
    bits = 64 if data[4] == 2 else 32
    header, segment, entry, section, symbol = map(struct.Struct, _LAYOUTS[bits])
    (machine,) = struct.unpack_from("<H", data, 18)
    at_segments, at_sections, size, count, section_size, sections = header.unpack_from(data)
    segments = []
    for number in range(count):
        fields = segment.unpack_from(data, at_segments + number * size)
        # The flags stand second in wide segments, and later in narrow ones.
        kind, offset, address, length = (
            (fields[0], fields[2], fields[3], fields[5]) if bits == 64
            else (fields[0], fields[1], fields[2], fields[4])
        )  # fmt: skip
        segments.append((kind, offset, address, length))
    interpreter = next(
        (_text(data, at) for kind, at, _, _ in segments if kind == _INTERPRETER), None
    )
    needed = _needed(data, segments, entry)
    rows = [
        section.unpack_from(data, at_sections + number * section_size) for number in range(sections)
    ]
    given: set[str] = set()
    wanted: set[str] = set()
    for fields in rows:
        if fields[1] != _SYMBOLS:
            continue
        strings = rows[fields[6]][4]
        for values in symbol.iter_unpack(data[fields[4] : fields[4] + fields[5]]):
            place = values[3] if bits == 64 else values[5]
            (given if place else wanted).add(_text(data, strings + values[0]))
    return ElfFile(
        path=path,
        abi=ABIS.get((bits, machine), f"another processor ({bits} bits, number {machine})"),
        interpreter=interpreter,
        needed=needed,
        given=frozenset(given),
        wanted=frozenset(wanted),
    )


def _needed(
    data: bytes, segments: list[tuple[int, int, int, int]], entry: struct.Struct
) -> tuple[str, ...]:
    """Names of the libraries that a file loads."""
    entries: list[tuple[int, int]] = []
    for kind, offset, _, length in segments:
        if kind == _DYNAMIC:
            entries += entry.iter_unpack(data[offset : offset + length - length % entry.size])
    values = dict(entries)
    if _STRINGS not in values:
        return ()
    strings = next(
        values[_STRINGS] - address + offset
        for kind, offset, address, length in segments
        if kind == _LOADED and address <= values[_STRINGS] < address + length
    )
    return tuple(_text(data, strings + value) for tag, value in entries if tag == _NEEDED)


def _text(data: bytes, at: int) -> str:
    """Text at a place, up to its zero byte."""
    return data[at : data.index(b"\0", at)].decode("utf-8")
