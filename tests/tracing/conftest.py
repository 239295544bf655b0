"""One thread, and a way to trace a step and read its rows by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from wattstep.engines.torch.tracer import TorchTracer
from wattstep.schema.journal import OPERATION, OPERATION_FIELDS
from wattstep.schema.tracer import TracedStep

Row = dict[str, Any]
NAMED = ("name", "kind", "layer", "phase", "shapes")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Traced:
    """Windows of a tracer, with names instead of codes."""

    def __init__(self, model: Any = None) -> None:
        self._names: list[str] = []
        self.tracer = TorchTracer(self._code)
        if model is not None:
            self.tracer.learn(model)
        self.windows = 0
        self.marks: tuple[int, int] = (0, 0)
        self.last: TracedStep | None = None

    def _code(self, table: str, text: str) -> int:
        self._names.append(text)
        return len(self._names) - 1

    def __call__(
        self, step: Callable[[], Any], phases: list[tuple[int, str]] | None = None
    ) -> list[Row]:
        """Traces one step and returns its rows, with the step's own start and end in `marks`."""
        self.tracer.start()
        begin = time.perf_counter_ns()
        step()
        self.marks = (begin, time.perf_counter_ns())
        self.tracer.finish()
        self.last = self.tracer.rows(self.windows, self.windows, phases or [])
        self.windows += 1
        rows = []
        for values in OPERATION.iter_unpack(self.last.rows):
            row: Row = dict(zip(OPERATION_FIELDS, values, strict=True))
            for name in NAMED:
                row[name] = None if row[name] < 0 else self._names[row[name]]
            rows.append(row)
        assert len(rows) == self.last.operations
        return rows


@pytest.fixture
def traced() -> type[Traced]:
    return Traced
