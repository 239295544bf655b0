"""PoCL on a CPU that its compiler does not know: tells it one that it knows, of the same instructions.

LLVM calls a CPU that is newer than itself "generic", and PoCL up to 4 hands that word on to a
compiler that refuses it: every program fails (github.com/pocl/pocl/issues/1049), and no option or
variable mends it. The name stands in the driver's record of the device, where it is replaced
before the first program is built.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any, Final

PLATFORM: Final = "Portable Computing Language"
UNKNOWN: Final = "generic"
# PoCL takes its library of built-in functions by what the CPU can do, and code for another target
# than the library's does not link: the target of each library, the widest first.
TARGETS: Final = (
    (frozenset({"avx512f"}), "skylake-avx512"),
    (frozenset({"avx2", "fma", "bmi1", "bmi2", "f16c", "abm"}), "haswell"),
)
# Bytes of the driver's record of a device that are looked at: the name stands at 640 in PoCL 3, and
# what lies beyond the record may point to the same word (every third time at 4080).
RECORD: Final = 1024
WORD: Final = 8
PAGE: Final = 4096  # the first holds nothing
USER_SPACE: Final = 1 << 47


def name_target(platform: str, handle: Any) -> str:
    """Names PoCL a target for its compiler where it does not know the CPU.

    Args:
        platform: The device's platform.
        handle: The device, as pyopencl has it.

    Returns:
        The target that it was given, now or before; "" where it needs none, or nothing can be done.
    """
    if platform != PLATFORM or not handle.version.endswith(f"-{UNKNOWN}"):
        return ""
    target = _target(_cpu_flags())
    if not target:
        return ""
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        names = _texts(memory, handle.int_ptr)
    if target in names.values():
        return target
    places = [place for place, text in names.items() if text == UNKNOWN]
    if len(places) != 1:
        return ""
    ctypes.c_uint64.from_address(places[0]).value = _copied(target)
    return target


def _target(flags: frozenset[str]) -> str:
    return next((name for needed, name in TARGETS if needed <= flags), "")


def _cpu_flags() -> frozenset[str]:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


def _texts(memory: Any, record: int) -> dict[int, str]:
    """Short texts that a record of the driver's points to, by the address of the pointer."""
    longest = max(len(text) for text in (UNKNOWN, *(name for _, name in TARGETS))) + 1
    texts = {}
    memory.seek(record)
    words = memory.read(RECORD)
    for number, (address,) in enumerate(
        struct.iter_unpack("=Q", words[: len(words) // WORD * WORD])
    ):
        if not PAGE <= address < USER_SPACE:
            continue
        try:
            memory.seek(address)
            text = memory.read(longest)
        except OSError:  # no pointer
            continue
        if b"\0" in text and (word := text.partition(b"\0")[0]).isascii():
            texts[record + number * WORD] = word.decode()
    return texts


def _copied(text: str) -> int:
    """Address of a copy that the driver may free."""
    duplicate = ctypes.CDLL(None).strdup
    duplicate.argtypes, duplicate.restype = [ctypes.c_char_p], ctypes.c_void_p
    return int(duplicate(text.encode()))
