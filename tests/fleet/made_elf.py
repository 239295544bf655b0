"""ELF files with nothing in them but what is told, laid out by hand as elf(5) has it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

MACHINES = {
    "arm64-v8a": (64, 183),
    "armeabi-v7a": (32, 40),
    "x86_64": (64, 62),
    "x86": (32, 3),
    "mips": (32, 8),
}
HEAD = {64: 64, 32: 52}


def write_elf(
    path: Path,
    abi: str,
    *,
    loader: str | None = None,
    needed: Sequence[str] = (),
    given: Sequence[str] = (),
    wanted: Sequence[str] = (),
    holding: bytes = b"",
) -> Path:
    """A program (with a loader) or library whose parts lie one after the other; addresses are 0x10000 further."""
    bits, machine = MACHINES[abi]
    wide = bits == 64
    names = b"\0"
    places = {}
    for name in (*needed, *given, *wanted):
        places[name] = len(names)
        names += name.encode() + b"\0"
    symbols = b""
    for name, section in [(n, 1) for n in given] + [(n, 0) for n in wanted]:
        symbols += (
            struct.pack("<IBBHQQ", places[name], 0x12, 0, section, 0, 0) if wide
            else struct.pack("<IIIBBH", places[name], 0, 0, 0x12, 0, section)
        )  # fmt: skip
    entry = struct.Struct("<qQ" if wide else "<iI")
    segment_size, section_size = (56, 64) if wide else (32, 40)
    count = 3 if loader else 2
    at = HEAD[bits] + count * segment_size
    parts = [(loader or "").encode() + b"\0", names, symbols]
    starts = []
    for part in parts:
        starts.append(at)
        at += len(part)
    dynamic = b"".join(entry.pack(1, places[name]) for name in needed)
    dynamic += entry.pack(5, starts[1] + 0x10000) + entry.pack(0, 0)
    sections_at = at + len(dynamic)

    def segment(kind: int, offset: int, size: int) -> bytes:
        address = offset + 0x10000
        if wide:
            return struct.pack("<IIQQQQQQ", kind, 5, offset, address, address, size, size, 8)
        return struct.pack("<IIIIIIII", kind, offset, address, address, size, size, 5, 4)

    def section(kind: int, offset: int, size: int, link: int) -> bytes:
        form = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
        return struct.pack(form, 0, kind, 0, offset + 0x10000, offset, size, link, 0, 1, 0)

    segments = segment(3, starts[0], len(parts[0])) if loader else b""
    segments += segment(1, 0, sections_at) + segment(2, at, len(dynamic))
    sections = section(0, 0, 0, 0) + section(11, starts[2], len(symbols), 2)
    sections += section(3, starts[1], len(names), 0)
    rest = (HEAD[bits], sections_at, 0, HEAD[bits], segment_size, count, section_size, 3, 0)
    head = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    form = "<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH"
    head += struct.pack(form, 3, machine, 1, 0, *rest)
    assert len(head) == HEAD[bits]
    body = head + segments + b"".join(parts) + dynamic + sections
    path.write_bytes(body + holding)
    return path
