"""Messages of GPUs that failed in the middle of a training, and what they mean."""

from __future__ import annotations

import re
from typing import Final

_MEANINGS: Final = (
    (
        re.compile(r"device-side assert"),
        "a check in a kernel failed, as of a class or a token that the network does not have",
    ),
    (re.compile(r"\bECC\b"), "its memory has an error that it cannot correct"),
    (
        re.compile(
            r"GPU is lost|fallen off the bus|no CUDA-capable device is detected|device is (?:busy or )?"
            r"unavailable|[Dd]evice(?:s)?[ -](?:un)?available|requires? (?:a )?reset",
        ),
        "it is gone, as one that was reset or lost its power",
    ),
    (
        re.compile(
            r"unspecified launch failure|illegal memory access|misaligned address|illegal instruction"
            r"|invalid program counter|hardware stack error|launch timed out"
        ),
        "a kernel on it crashed, or was stopped",
    ),
    (
        re.compile(
            r"CUDA (?:driver )?error:|CU(?:DNN|BLAS)_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR)"
        ),
        "CUDA gave it up",
    ),
)


def meaning_of(text: str) -> str | None:
    """What a message says of the GPU that failed; None: it says nothing of one.

    A lack of memory is no fault: ask `oom_messages.says_ran_out` before.
    """
    return next((meaning for pattern, meaning in _MEANINGS if pattern.search(text)), None)
