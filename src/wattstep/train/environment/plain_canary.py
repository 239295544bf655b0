"""A canary for processes that may hold no library but the standard one: Python 3.6 and later, text that also runs inside the one-file agent."""

import mmap
import typing

FACTOR, SUMMAND, SEED = 1664525, 1013904223, 2026  # the generator of Numerical Recipes, mod 2^32
MASK = (1 << 32) - 1
ROUNDS = 20000  # of a pass: each multiplies and adds
BUFFER = 1 << 24  # bytes that a pass copies: more than the caches of small devices hold
PAGE = 4096
LEAST_PASSES = 5
MOST_S = 2.0  # from here on fewer passes are enough


def compute(number: int, rounds: int) -> int:
    """A number after so many rounds of the generator."""
    for _ in range(rounds):
        number = (number * FACTOR + SUMMAND) & MASK
    return number


def expected(number: int, rounds: int) -> int:
    """Expected result, by powers instead of one round after the other."""
    power = pow(FACTOR, rounds, (FACTOR - 1) << 32)
    return (power * number + SUMMAND * ((power - 1) // (FACTOR - 1))) & MASK


def work(seconds: float, clock_ns: typing.Callable[[], int]) -> typing.Dict[str, typing.Any]:
    """Passes of arithmetic of the interpreter and of copying memory, in turn, on one core.

    Args:
        seconds: After so long no further pass begins, once each part has had five, or two seconds.
        clock_ns: Monotonic, in ns; that of the run.

    Returns:
        "at_ns" (begin), "compute_s" and "memory_s" (time of each pass), "right" (whether the
        results were).

    Raises:
        OSError: The kernel gives no memory.
    """
    number, begin = SEED, clock_ns()
    compute_s: typing.List[float] = []
    memory_s: typing.List[float] = []
    with mmap.mmap(-1, BUFFER) as source, mmap.mmap(-1, BUFFER) as target:
        with memoryview(source) as source_view, memoryview(target) as target_view:
            for at in range(0, BUFFER, PAGE):
                source_view[at] = at // PAGE % 251
                target_view[at] = 0  # the kernel's own work on first touch is none of the canary's
            while True:
                start = clock_ns()
                number = compute(number, ROUNDS)
                middle = clock_ns()
                target_view[:] = source_view
                now = clock_ns()
                compute_s.append(round((middle - start) * 1e-9, 8))
                memory_s.append(round((now - middle) * 1e-9, 8))
                took = (now - begin) * 1e-9
                if took >= MOST_S or (took >= seconds and len(compute_s) >= LEAST_PASSES):
                    break
            right = target_view[:: 64 * PAGE].tolist() == source_view[:: 64 * PAGE].tolist()
    right = right and number == expected(SEED, len(compute_s) * ROUNDS)
    return {"at_ns": begin, "compute_s": compute_s, "memory_s": memory_s, "right": right}
