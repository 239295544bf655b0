"""Messages of failed allocations: of Python, torch, C++, the loader of libraries and BLAS."""

from __future__ import annotations

import errno
import re
import resource
from typing import Final

# Each is what a part is known to say, in whole; "memory" or "alloc" alone stand in many errors
# that are no lack of memory, e.g. "unsupported memory format".
_RAN_OUT: Final = re.compile(
    r"^memory ran out"  # we ourselves, see `training.main`
    r"|^[\w.]*MemoryError\b"  # a traceback of Python, NumPy or torch ends with it
    r"|[Cc]an(?:not|'t) allocate memory(?! in static TLS)"  # DefaultCPUAllocator; ENOMEM; the loader
    r"|DefaultCPUAllocator: not enough memory"
    r"|Unable to allocate [\d.]+ [KMGTPE]?i?B for an array"  # NumPy
    r"|\bstd::bad_alloc\b"
    r"|(?:CUDA|HIP|XPU|MPS)(?: backend| error:| driver error:)? out of memory"
    r"|NvMapMem\w+.*\berror 12\b"  # of a Jetson's driver: ENOMEM
    r"|CU(?:DNN|BLAS)_STATUS_ALLOC_FAILED"
    r"|CUDNN_STATUS_INTERNAL_ERROR_(?:DEVICE|HOST)_ALLOCATION_FAILED"  # of cuDNN 9
    # torch on Jetson and MIG, which asks NVML what is left (pytorch/pytorch#128661)
    r"|NVML_SUCCESS == r INTERNAL ASSERT FAILED at .*CUDACachingAllocator"
    r"|malloc of size \d+ failed"  # Arrow
    r"|OpenBLAS.*[Mm]emory allocation (?:still )?failed",
    re.MULTILINE,
)
# Under a limit on data segments a thread finds no room for its stack; else it may be a limit on
# the number of threads.
_NO_STACK: Final = re.compile(
    r"can't start new thread|[Tt]hread creation failed|pthread_create.*unavailable"
)


def says_ran_out(text: str) -> bool:
    """True if an error or the output of a process says that an allocation failed."""
    return _RAN_OUT.search(text) is not None


def says_no_stack(text: str) -> bool:
    """True if it says that a thread could not be started, which under a limit is lack of memory."""
    return _NO_STACK.search(text) is not None


def ran_out(error: BaseException) -> bool:
    """True if an error that was raised in this process means that memory ran out."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    bounded = resource.getrlimit(resource.RLIMIT_DATA)[0] != resource.RLIM_INFINITY
    return says_ran_out(str(error)) or (bounded and says_no_stack(str(error)))
