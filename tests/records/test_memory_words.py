"""What means that memory ran out, and what only mentions memory."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from wattstep.schema.oom_messages import ran_out, says_no_stack, says_ran_out


@pytest.mark.parametrize(
    "words",
    [
        "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried "
        "to allocate 268435456 bytes. Error code 12 (Cannot allocate memory)",
        "DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.",
        "CUDA out of memory. Tried to allocate 20.00 MiB",
        "Traceback\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "Traceback\n  return x @ y\nMemoryError\n",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with",
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
        "ImportError: libx.so: failed to map segment from shared object: Cannot allocate memory",
        "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.",
        "memory ran out: try a smaller batch",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        'NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/opt/pytorch/c10/cuda/CUDACachingAllocator.cpp":1131',
    ],
)
def test_what_parts_say_where_an_allocation_fails_is_known(words: str) -> None:
    assert says_ran_out(words)


@pytest.mark.parametrize(
    "words",
    [
        "unsupported memory format option Contiguous",
        "required rank 4 tensor to use channels_last format",
        "Expected all tensors to be allocated on the same device",
        "UserWarning: this may run out of memory",
        "libgomp.so.1: cannot allocate memory in static TLS block",
        "mat1 and mat2 shapes cannot be multiplied",
        "in test_MemoryError: nothing",
        "",
    ],
)
def test_what_only_mentions_memory_is_another_mistake(words: str) -> None:
    assert not says_ran_out(words)
    assert not ran_out(RuntimeError(words))


def test_errors_of_python_and_the_system_count_by_their_kind() -> None:
    assert ran_out(MemoryError())
    assert ran_out(OSError(errno.ENOMEM, "Cannot allocate memory"))
    assert not ran_out(OSError(errno.ENOSPC, "No space left on device"))
    assert ran_out(ImportError("libx.so: failed to map segment: Cannot allocate memory"))


def test_a_thread_that_cannot_be_started_is_lack_of_memory_only_under_a_limit() -> None:
    words = "can't start new thread"
    assert says_no_stack(words)
    assert not ran_out(RuntimeError(words))
    script = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))\n"
        "from wattstep.schema.oom_messages import ran_out\n"
        f"print(ran_out(RuntimeError({words!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
