"""A capture to which the values of a batch are real, and those of all else unknown.

What only a batch decides (how long its sentences are, which of them are packed together) is then known,
and takes no more memory than the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils import _pytree as pytree

PACK: Final = "_pack_padded_sequence"
MIXES: Final = "a value that is not known is written into one that is"
NOT_OWN: Final = "its parameters have values"


def call(func: Any, args: Any, kwargs: Any, *, data: bool) -> Any:
    """What an operation makes: for real where all that it takes has values.

    Args:
        func: The operation.
        args: Of it.
        kwargs: Likewise.
        data: Whether it reads and prepares the batch.

    Raises:
        NotImplementedError: It writes what is not known into what has values, which then would be wrong.
    """
    tensors = [
        each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)
    ]
    unknown = any(isinstance(each, FakeTensor) for each in tensors)
    if func.overloadpacket.__name__ == PACK and unknown:
        return _packed(*args)
    if not unknown and (data or tensors or _makes_integers(kwargs, func)):
        with unset_fake_temporarily():
            return func(*args, **kwargs)
    for argument, value in zip(func._schema.arguments, args, strict=False):
        written = argument.alias_info is not None and argument.alias_info.is_write
        if written and isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
            raise NotImplementedError(f"{func.overloadpacket.__name__}: {MIXES}")
    return func(*args, **kwargs)


def _makes_integers(kwargs: Any, func: Any) -> bool:
    """True if a tensor is made that counts: of indices or lengths."""
    kind = kwargs.get("dtype")
    if kind is None:
        return bool(func.overloadpacket.__name__ == "arange")
    return kind in (torch.int64, torch.int32, torch.bool)


def _packed(padded: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
    """Sequences behind each other as torch packs them, time step by time step: (sum of lengths, ...)."""
    if isinstance(lengths, FakeTensor):
        raise NotImplementedError(f"{PACK}: lengths are not known")
    with unset_fake_temporarily():
        longest, words = int(lengths.max()), int(lengths.sum())
        if longest > padded.shape[int(batch_first)] or int(lengths.min()) < 1:
            raise NotImplementedError(f"{PACK}: lengths do not fit")  # torch will say how
        running = (lengths[None, :] > torch.arange(longest)[:, None]).sum(dim=1)
    return padded.new_empty((words, *padded.shape[2:])), running


@contextmanager
def real_data() -> Iterator[Callable[[str], None]]:
    """While a training is prepared: its model without values, its data with them.

    Yields:
        Told which of `schema.workload.PARTS` begins.
    """
    with ExitStack() as values:

        def begin(part: str) -> None:
            values.close()
            if part == "data":
                values.enter_context(unset_fake_temporarily())

        yield begin


def check_unknown(model: torch.nn.Module) -> None:
    """Refuses a model that has values: it would be trained.

    Raises:
        NotImplementedError: It has.
    """
    if not all(isinstance(each, FakeTensor) for each in model.parameters()):
        raise NotImplementedError(NOT_OWN)
