"""What ends a training process that is no mistake of ours: memory, a full disk, a GPU that failed."""

from __future__ import annotations

import errno
from collections.abc import Callable

from wattstep.errors import DeviceFaultError, RecordingError
from wattstep.schema.device_faults import meaning_of
from wattstep.schema.oom_messages import ran_out
from wattstep.schema.processes import ChildNews


def news_of(error: BaseException, account: Callable[[], str]) -> ChildNews | None:
    """News of the process's end, for who listens to it.

    Args:
        error: What ended it.
        account: Gives what is known of a GPU's memory, see `Engine.memory_account`; it is asked
            while the error holds what the training held.

    Returns:
        "error", and "kind": the name of the error's class; None: it is a mistake of ours.
    """
    message = (str(error).splitlines() or [""])[0]
    if ran_out(error):
        known = account()
        words = f"memory ran out: {message or 'try a smaller batch'}"
        return {"error": f"{words} ({known})" if known else words}
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return {"error": f"the disk is full: {message}", "kind": RecordingError.__name__}
    meaning = meaning_of(str(error)) if isinstance(error, RuntimeError) else None
    if meaning is None:
        return None
    return {"error": f"the GPU failed: {meaning} ({message})", "kind": DeviceFaultError.__name__}
