"""What an offline run of Weights & Biases holds."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from tests.waiting import until

BLOCK = 32768  # bytes of a block of LevelDB's logs


def kept_by_wandb(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The last values of the history, and the summary, of the one run below a folder.

    Another process writes them, to the end of the run: it is waited for.
    """
    until(lambda: any(record.HasField("exit") for record in records_of(folder)))
    history: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    for record in records_of(folder):
        for item in record.history.item:
            history["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
        for item in record.summary.update:
            summary["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
    return history, summary


def records_of(folder: Path) -> list[Any]:
    """The whole records of a log of LevelDB's form, of the library's own messages.

    A log that is still written may end within a part: what is cut there is not of a record yet.
    """
    from wandb.proto import wandb_internal_pb2 as messages

    [file] = folder.glob("wandb/offline-run-*/*.wandb")
    data, at, open_part = file.read_bytes(), 7, b""  # after the log's own seven bytes
    found = []
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:  # no part begins so near to the end of a block
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if at + 7 + length > len(data):
            break
        open_part += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part of several
            found.append(messages.Record.FromString(open_part))
            open_part = b""
    return found
