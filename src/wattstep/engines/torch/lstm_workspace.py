"""What oneDNN keeps of an LSTM layer for its backward pass, which fake tensors do not tell."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

# Samples for which a real layer is asked: a larger one would take its memory, and seconds.
MOST_ASKED: Final = 128
# Arguments with samples in their last dimension but one: input, hidden and cell state.
OF_SAMPLES: Final = (0, 5, 6)


class _Shaped(NamedTuple):
    """A tensor, but for its values."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def lstm_workspace(func: Any, args: Any) -> int:
    """Bytes that oneDNN keeps of an LSTM layer for its backward pass: known to itself alone, so it is asked.

    Of more than `MOST_ASKED` samples it is what half as many and as many of these say on a line: of 512 that is
    what a layer keeps, of 200 within 0.03 % (512 units) and 1 % (24; oneDNN of torch 2.13).
    """
    described: tuple[Any, ...] = tuple(
        _Shaped(tuple(each.shape), each.dtype)
        if isinstance(each, torch.Tensor)
        else (tuple(each) if isinstance(each, list) else each)
        for each in args
    )
    samples: int = described[0].shape[-2]
    if samples <= MOST_ASKED:
        return _asked(func, described)
    half, whole = (
        _asked(func, _of_samples(described, number)) for number in (MOST_ASKED // 2, MOST_ASKED)
    )
    return round(whole + (whole - half) * (samples - MOST_ASKED) / (MOST_ASKED / 2))


def _of_samples(described: tuple[Any, ...], number: int) -> tuple[Any, ...]:
    """The arguments of a layer with another number of samples."""
    changed = list(described)
    for place in OF_SAMPLES:
        shape = described[place].shape
        changed[place] = described[place]._replace(shape=(*shape[:-2], number, shape[-1]))
    return tuple(changed)


@cache
def _asked(func: Any, described: tuple[Any, ...]) -> int:
    """As `lstm_workspace`, once for all layers of the same shapes: to ask takes what the layer takes.

    Args:
        func: The operation.
        described: Its arguments.
    """
    with unset_fake_temporarily(), torch.enable_grad():  # without gradients it keeps nothing
        real = [
            torch.zeros(each.shape, dtype=each.dtype) if isinstance(each, _Shaped) else each
            for each in described
        ]
        return int(func(*real)[3].nbytes)
