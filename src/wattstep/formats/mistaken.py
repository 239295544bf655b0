"""Files that people hand over and that are not read here: what each is, and what to record or convert instead."""

from __future__ import annotations

import re
from typing import Final

LOOK_BYTES: Final = 1 << 16
UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_STAMP: Final = rb"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?"
# The first that fits is named.
MISTAKEN: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (rb"(?i)\A\s*<(?:!doctype html|html)", "a page of HTML"),
        (rb"\APK\x03\x04", "a zip archive: unpack it"),
        (
            rb"\ASQLite format 3\x00",
            "an SQLite database; the report of Nsight Systems that it is made of is read as CSV: "
            "nsys stats --format csv FILE",
        ),
        (
            rb"(?s)\A.{0,64}QDSTRM",
            "a report of Nsight Systems: turn it into CSV with nsys stats --format csv",
        ),
        (
            rb"\APERFILE2|\A2ELIFREP",
            "perf's own recording, which holds samples of code: energies are read from the text of "
            "perf stat -a -I 1000 -e power/energy-pkg/",
        ),
        (
            rb"\A\s*\{\"interval\" ?: ?[^\n]{1,80}\"counter-value\"",
            "JSON of perf stat: its text, or that of -x, is read",
        ),
        (
            rb"(?m)\A(?:#[^\n]*|\s*)*^ Performance counter stats for ",
            "what perf stat counted of a whole run: with -I 1000 it counts interval by interval, which is read",
        ),
        (
            rb"\A(?:\xef\xbb\xbf)?(?=[^\n]*\bproject_name\b)(?=[^\n]*\bduration\b)[^\n]*\bemissions\b",
            "codecarbon's emissions.csv, which has a row for a whole run and no samples: its energies are "
            "sums over a time that nothing here can divide",
        ),
        (
            rb"\A\s*[^\n]{0,80}ROCm System Management Interface|\A(?:device|card),[^\n]*(?:\(W\)|GPU use)|\A\s*\{\s*\"card\d+\"",
            "a snapshot of rocm-smi, which has no times: log time and watts as CSV, e.g. a line "
            "time_s,gpu0_power_W every second",
        ),
        (
            rb"\A\s*=+NVSMI LOG=+\s",
            "the text of nvidia-smi -q, which is a snapshot: nvidia-smi --query-gpu=timestamp,index,power.draw "
            "--format=csv -lms 100 records",
        ),
        (
            rb"(?s)\A\s*<\?xml.{0,300}<plist",
            "a property list, as powermetrics -f plist writes: its text (-f text) is read",
        ),
        (
            rb"\A[^\n]*\n?\+-{20,}[^\n]*\n\| NVIDIA-SMI ",
            "the table that nvidia-smi prints for people, which has no times: nvidia-smi "
            "--query-gpu=timestamp,index,power.draw --format=csv -lms 100 records",
        ),
        (
            rb"\A\s*(?:" + _STAMP + rb"\s*(?:,|\r?\n)|(?:[^,\n]{1,40}, ){0,20}[0-9.]+ (?:W|MiB|MHz|%)\s*(?:,|\r?\n))",
            "rows of nvidia-smi without their header (noheader): which column is which, nobody can tell. "
            "Record with --format=csv, or put the header of the query above them",
        ),
    )
)  # fmt: skip


def mistaken(head: bytes) -> str:
    """What a file is that is not read here, with what to do; "" where it is none that is known.

    Args:
        head: Its first bytes, unpacked.
    """
    for pattern, words in MISTAKEN:
        if pattern.search(head[:LOOK_BYTES]):
            return words
    return ""
