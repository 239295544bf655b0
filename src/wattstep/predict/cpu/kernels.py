"""What oneDNN allocates for a kernel or a change of layout that it sees for the first time, as it was recorded.

Most of it is there until the call returns, some stays for good. While a block that stays is made, those of its
call lie in the small holes: without them it would come to lie beside a tensor, and keep the room there apart.
Recorded were all allocations of trainings of MobileNetV2 (also with frozen layers) and ResNet8 (torch 2.13, x86-64).
"""

from __future__ import annotations

from typing import Final

from wattstep.predict.cpu.arena import chunk_size

# Blocks in their order: bytes of an aligned one, and chunks of the others that follow it. 0: none is aligned.
Blocks = tuple[tuple[int, tuple[int, ...]], ...]


def _recorded(requests: str) -> Blocks:
    """Blocks for requests of so many bytes; those with a star are aligned."""
    blocks: list[tuple[int, list[int]]] = [(0, [])]
    for request in requests.split():
        if request.endswith("*"):
            blocks.append((int(request[:-1]), []))
        else:
            blocks[-1][1].append(chunk_size(int(request)))
    return tuple((aligned, tuple(others)) for aligned, others in blocks if aligned or others)


_TENSOR: Final = "824* 8 56* 32 "  # description of a tensor
_RUN: Final = (
    f"72* 32 56 {_TENSOR} 32 104 32 32 336 {_TENSOR * 2} 336 {_TENSOR}"  # a change of layout runs
)
# A call of a convolution until its kernel is made, and from then on until it returns.
OPENING: Final = _recorded(f"2144* 32 {_TENSOR * 3} {'768* 32 ' * 3} {'2144* 32 ' * 4} 768* 32")
MADE: Final = _recorded(f"96 48* 32 2144* 32 2144* 32 56 {_TENSOR}")
# A change of layout, of what a kernel takes and of what it gives, until it is done.
TAKING: Final = _recorded(f"2144* 32 768* 32 56 {_TENSOR} 2144* 32 {_RUN}")
GIVING: Final = _recorded(f"{_TENSOR} 768* 32 {_TENSOR} 2144* 32 2144* 32 {_RUN}")
# What stays.
KERNEL: Final = _recorded(
    "48* 2216* 6560 13552* 24 32 40 410 56 48 48 136 88 13552* 24 8 4592* 41 24 104 224 104 104 104 96 270"
)
LAYOUT: Final = _recorded("48 48 136 88 5496* 24 3664* 30 24 104 224 104 104 24 104 117")
