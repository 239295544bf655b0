"""Tensors that are as before after something has changed them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryFile
from typing import IO

import torch

from wattstep.schema.processes import give_back_free_memory


@contextmanager
def put_back(tensors: Iterable[torch.Tensor]) -> Iterator[str]:
    """Puts back what tensors in memory hold now.

    It lies in a temporary file meanwhile: a copy of weights and optimizer's state in memory would be the highest
    that the training ever takes (ResNet50's with momentum: 188 MB of 1,020).

    Args:
        tensors: Any number of them on one storage, which is kept once.

    Yields:
        Why they are in memory none the less; "": they are not.
    """
    views = list({each.data_ptr(): each for each in map(_bytes, tensors)}.values())
    give_back_free_memory()  # what capturing has left, before as much again is taken
    with ExitStack() as stack:
        try:
            file, problem = stack.enter_context(_written(views)), ""
        except OSError as error:
            problem = f"weights were copied in memory, since no temporary file could be written: {error.strerror or error}"
            copies = [view.clone() for view in views]
            stack.callback(_copy_back, views, copies)
        else:
            stack.callback(_read_back, file, views)
        yield problem
    give_back_free_memory()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """All of its storage, shape (bytes,)."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def _written(views: Iterable[torch.Tensor]) -> IO[bytes]:
    """A temporary file of them; one that is not written to its end takes no room on the disk."""
    with ExitStack() as stack:
        # Without a buffer: one that is not written would be tried once more when the file is closed.
        file = stack.enter_context(TemporaryFile(buffering=0))
        for view in views:
            _whole(file.write, view)
        stack.pop_all()
    return file


def _copy_back(views: Iterable[torch.Tensor], copies: Iterable[torch.Tensor]) -> None:
    for view, copy in zip(views, copies, strict=True):
        view.copy_(copy)


def _read_back(file: IO[bytes], views: Iterable[torch.Tensor]) -> None:
    file.seek(0)
    for view in views:
        _whole(file.readinto, view)  # type: ignore[attr-defined]  # files without a buffer have it


def _whole(move: Callable[[memoryview], int], view: torch.Tensor) -> None:
    """Reads or writes all of it: a call moves 2 GiB at most."""
    left = view.numpy().data
    while left:
        if not (moved := move(left)):
            raise OSError("the temporary file of weights ends early")
        left = left[moved:]
