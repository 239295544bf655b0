"""The process that packs closed segments of journals while a run is recorded, at the lowest priority.

The sampler's child starts it when there is something to pack: a child of the training would be
counted as the training's. It waits with next to nothing loaded, and has a child of its own pack what
there is, so that the memory goes back. Killed at any moment it leaves a whole segment, a whole piece
or both, and perhaps a part of a file that nobody reads and that goes with the journals.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from wattstep.errors import DamagedRunError
from wattstep.schema.journal import JOURNAL, segment_name
from wattstep.store.folder import Folder
from wattstep.store.segments import packable

FOLDER: Final = (
    3  # descriptor of the folder of the journals, as `record/sampling/child.py` leaves it
)
LOOK_S: Final = 5.0
AGAIN_S: Final = 60.0  # where the disk was full

Segment = tuple[str, int, int, int]  # journal and number, size in bytes, when it was last changed


def main() -> None:
    """Packs the segments in a folder until the process PARENT, which started it, is gone."""
    parent = int(sys.argv[1])
    os.fchdir(FOLDER)  # the run may be moved meanwhile
    run = Path("..")
    os.closerange(FOLDER, 256)  # and perf counters that the sampler was given
    _yield_to_others()
    seen: set[Segment] = set()  # what of them is still there was left as it is
    while os.getppid() == parent:
        try:
            with Folder(run) as folder, folder.inside(JOURNAL) as journal:
                waiting = _waiting(journal)
        except FileNotFoundError:  # the run was closed
            return
        packed = waiting <= seen or _ending_of_child(run, seen) == 0
        if packed:
            seen = waiting
        time.sleep(LOOK_S if packed else AGAIN_S)


def _waiting(journal: Folder) -> set[Segment]:
    """The segments that are to be packed, as they are."""
    segments = set()
    for name, number in packable(journal.names()):
        with (
            contextlib.suppress(FileNotFoundError),
            journal.open(segment_name(name, number)) as file,
        ):
            status = os.fstat(file.fileno())
            segments.add((name, number, status.st_size, status.st_mtime_ns))
    return segments


def pack_closed(run: Path, seen: Collection[Segment] = ()) -> None:
    """Packs all segments that are to be, but for those that were seen as they are, and thins pieces that are old enough.

    Raises:
        OSError: The disk is full; what is not packed is untouched.
        DamagedRunError: `run.json` cannot be read, or Parquet gives other rows than it was given; all
            other segments are packed.
    """
    from wattstep.store.files import read_info
    from wattstep.store.pieces import pack, row_words
    from wattstep.store.thinned_journal import thin_pieces
    from wattstep.store.thinned_marks import thin_mark_pieces

    with Folder(run) as folder, folder.inside(JOURNAL) as journal:
        info = read_info(folder)
        words = row_words(info)
        damaged: list[DamagedRunError] = []
        for name, number, *_ in sorted(_waiting(journal).difference(seen)):
            if name in words:
                try:
                    pack(journal, name, number, words[name])
                except DamagedRunError as error:
                    damaged.append(error)
        for thin in (thin_pieces, thin_mark_pieces):
            try:
                thin(journal, info)
            except DamagedRunError as error:
                damaged.append(error)
        if damaged:
            raise damaged[0]


def _ending_of_child(run: Path, seen: Collection[Segment]) -> int:
    child = os.fork()
    if not child:
        code = 1
        with contextlib.suppress(OSError, DamagedRunError):
            from wattstep.store.without_pandas import without_pandas

            without_pandas()
            pack_closed(run, seen)
            code = 0
        os._exit(code)
    return os.waitpid(child, 0)[1]


def _yield_to_others() -> None:
    """Runs only where a core has nothing else to do; the kernel then treats its disk accesses likewise."""
    with contextlib.suppress(OSError):
        os.nice(19)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
