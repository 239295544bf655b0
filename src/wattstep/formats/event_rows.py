"""Events of a trace gathered one by one, as the columns that a trace has."""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np

from wattstep.formats.trace import NONE, Codes, Events, Longs

MOST_NS: Final = 1 << 62  # times beyond it are mistakes, and their sums would not fit
CODES: Final = ("name", "category", "processor")
LONGS: Final = ("thread", "process", "start_ns", "end_ns", "correlation", "bytes")


class EventRows:
    """Columns that grow; texts are kept once.

    Attributes:
        names: Texts by code.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}
        self._code_columns = {key: array("i") for key in CODES}
        self._long_columns = {key: array("q") for key in LONGS}
        self._append_code = [column.append for column in self._code_columns.values()]
        self._append_long = [column.append for column in self._long_columns.values()]

    def __len__(self) -> int:
        return len(self._long_columns["start_ns"])

    def code(self, text: str) -> int:
        """The code of a text, a new one where it is new."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.names)
            self.names.append(text)
        return code

    def add(
        self,
        name: str,
        category: str,
        processor: str,
        start_ns: int,
        end_ns: int,
        *,
        thread: int = 0,
        process: int = NONE,
        correlation: int = NONE,
        bytes_moved: int = NONE,
    ) -> None:
        """Takes in one event; see `Events` for what each is.

        Raises:
            ValueError: A time is too large, or the end is before the begin.
        """
        if not -MOST_NS < start_ns <= end_ns < MOST_NS:
            raise ValueError(f"an event from {start_ns} to {end_ns} ns")
        for append, text in zip(self._append_code, (name, category, processor), strict=True):
            append(self.code(text))
        values = (thread, process, start_ns, end_ns, correlation, bytes_moved)
        for add, value in zip(self._append_long, values, strict=True):
            add(value if -MOST_NS < value < MOST_NS else NONE)

    def events(self) -> Events | None:
        """Rows that were added; None where there are none."""
        count = len(self)
        if not count:
            return None

        def codes(key: str) -> Codes:
            return np.array(self._code_columns[key], np.int32)

        def longs(key: str) -> Longs:
            return np.array(self._long_columns[key], np.int64)

        def silent() -> Longs:
            return np.full(count, NONE, np.int64)

        return Events(
            name=codes("name"), category=codes("category"), processor=codes("processor"),
            thread=longs("thread"), process=longs("process"), start_ns=longs("start_ns"),
            end_ns=longs("end_ns"), correlation=longs("correlation"), external=silent(),
            sequence=silent(), forward_thread=silent(), shapes=np.full(count, NONE, np.int32), flops=silent(),
            bytes=longs("bytes"),
        )  # fmt: skip
