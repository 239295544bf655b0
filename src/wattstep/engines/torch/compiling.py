"""torch.compile of a model: when it compiles, what memory that takes, and what keeps it from compiling."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch

from wattstep.errors import InvalidValueError
from wattstep.schema.condition_documents import CompilingFacts

COMPILED: Final = "torch-compile"  # the engine, as `engines.trained` names it
# In torch 2.13 the compiler writes the gradient of max pooling as a scatter into zeros, and may put what
# reads it before the scatter: AlexNet's convolutions then get no gradient, in silence. Its other way of the
# same gradient gathers, and writes nothing twice.
GATHERED: Final = (
    "the gradient of max pooling is gathered, which torch's compiler does right, and not scattered"
)
_COUNTS = ("fxgraph_cache_hit", "fxgraph_cache_miss", "fxgraph_cache_bypass")


class Compiling:
    """Has torch compile a model in place when it first runs, and follows when it does.

    The parts of the model as well, for trainings that call these by themselves (a generator alone).

    Args:
        model: Which.

    Attributes:
        remarks: What a reader of a run must know.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._stretches: list[list[int]] = []
        self.remarks: list[str] = []
        self._begin()
        if any(isinstance(part, torch.nn.MaxPool2d) for part in model.modules()):
            _gather_in_pooling()
            self.remarks.append(GATHERED)
        for part in (model, *model.children()):
            part.compile()
        from torch._dynamo.callback import callback_handler  # which takes seconds to load

        self._end()  # torch loads its compiler before anything runs
        callback_handler.register_start_callback(self._begin)
        callback_handler.register_end_callback(self._end)
        self._before = _graphs()

    def facts(self) -> CompilingFacts:
        """What it took so far."""
        hit, miss, bypass = (
            now - before for now, before in zip(_graphs(), self._before, strict=True)
        )
        stretches = [each for each in self._stretches if len(each) > 2]  # that have ended
        return {"stretches": stretches, "graphs": hit + miss + bypass, "from_cache": hit}

    def _begin(self, *_: Any) -> None:
        self._stretches.append([time.perf_counter_ns(), _resident()])

    def _end(self, *_: Any) -> None:
        self._stretches[-1] += [time.perf_counter_ns(), _resident()]


def _gather_in_pooling() -> None:
    """Takes the compiler's scattering way for gradients of max pooling away, and what it once made of it."""
    from torch._inductor.decomposition import decompositions
    from torch.compiler import config

    decompositions.pop(torch.ops.aten.max_pool2d_with_indices_backward.default, None)
    config.cache_key_tag = GATHERED


def _resident() -> int:
    """Resident bytes of this process."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _graphs() -> list[int]:
    """Graphs so far that came from the compiler's cache on disk, that did not, that could not."""
    from torch._dynamo.utils import counters

    return [int(counters["inductor"][name]) for name in _COUNTS]


@contextmanager
def compiling(on: bool) -> Iterator[None]:
    """Turns what keeps torch from compiling into an error for the user.

    Raises:
        InvalidValueError: There is no compiler for it, or it cannot compile this model.
    """
    if not on:
        yield
        return
    try:
        yield
    except RuntimeError as error:
        # By name: to import the compiler takes a second, also where nothing is compiled.
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        message = next(
            (line for line in str(error).splitlines() if line.strip()), type(error).__name__
        )
        raise InvalidValueError(
            f"--compile: torch cannot compile this model: {message}", id="cannot-compile"
        ) from error
