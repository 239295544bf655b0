"""The GNU C library's malloc, replayed: how much memory a sequence of allocations keeps resident.

One thread, one arena, the rules of glibc 2.26 to 2.37 on 64 bits (malloc(3), mallopt(3), the wiki's
"MallocInternals", and what recorded allocations of trainings did): chunks in multiples of 16 bytes;
small ones that are freed are kept by size (7 each, then in fast bins) without being merged; others are
merged with free neighbours and looked through in the order in which they were freed; the smallest that
fits is split. Requests from a threshold on get pages of their own, if nothing free fits; freeing such
pages raises the threshold to their size, at most 32 MiB. Free memory at the end of the heap goes back
to the system once there is twice the threshold of it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Final

PAGE: Final = 4096
PAD: Final = (
    128 * 1024
)  # by which the heap grows beyond what is asked for, and which stays when it shrinks
HEADER: Final = 16
LEAST: Final = 32  # bytes of a chunk
KEPT: Final = 1040  # largest chunk that is kept by size
KEPT_EACH: Final = 7
FAST: Final = 128  # largest chunk of fast bins
SMALL: Final = 1024  # from here on bins hold chunks of several sizes
MERGES: Final = 64 * 1024  # a free chunk of this size has fast bins merged and the heap shrink
MOST_THRESHOLD: Final = 32 << 20
ALIGNMENT: Final = 64  # of torch's tensors


def chunk_size(request: int) -> int:
    """Bytes of the chunk for a request."""
    return max(LEAST, (request + 23) & ~15)


def _bin(size: int) -> int:
    """Number of the bin of a large chunk: those of one bin are sorted by size."""
    for shift, count, first in (
        (6, 48, 48),
        (9, 20, 91),
        (12, 10, 110),
        (15, 4, 119),
        (18, 2, 124),
    ):
        if size >> shift <= count:
            return first + (size >> shift)
    return 126


class Arena:
    """An arena without chunks, and pages beside it.

    A block is the number that `allocate` gave; those with pages of their own are below zero.

    Args:
        threshold: Bytes from which on a request gets pages of its own.

    Attributes:
        peak: Most bytes that were resident since it was last set.
        fresh: Bytes of pages that the system gave since it was last set: it fills each with zeros.
    """

    def __init__(self, threshold: int) -> None:
        self.peak = self.fresh = 0
        self._threshold, self._trim_from = threshold, 2 * threshold
        self._size: dict[int, int] = {}
        self._before: dict[int, int] = {}  # the chunk that ends where this one begins
        self._top = self._end = self._touched = 0
        self._last: int | None = None  # the chunk before the top
        self._pages: dict[int, int] = {}
        self._mapped = 0
        self._kept: dict[int, list[int]] = {}
        self._fast: dict[int, list[int]] = {}
        self._fast_count = 0
        self._unsorted: deque[int] = deque()
        self._free: dict[
            int, int | None
        ] = {}  # merged free chunks; with the bin's size once sorted
        self._waiting = 0  # of `_unsorted` those that still are there
        self._bins: dict[int, list[int]] = {}
        self._sizes: list[int] = []  # of `_bins`, sorted
        self._remainder: int | None = None

    @property
    def resident(self) -> int:
        """Bytes that are resident: what was ever touched of the heap, and pages beside it."""
        return self._mapped + self._touched

    def allocate(self, size: int) -> int:
        """A block for so many bytes, as malloc gives it."""
        need = chunk_size(size)
        kept = self._kept.get(need)
        return kept.pop() if kept else self._take(need)

    def allocate_aligned(self, size: int) -> int:
        """A block at a multiple of `ALIGNMENT`, as posix_memalign gives it: what is before and behind is freed."""
        need = chunk_size(size)
        block = self._take(need + ALIGNMENT + LEAST)
        if block < 0:
            return block
        if (block + HEADER) % ALIGNMENT:
            aligned = -(-(block + HEADER) // ALIGNMENT) * ALIGNMENT - HEADER
            if aligned - block < LEAST:
                aligned += ALIGNMENT
            self._split(block, aligned - block)
            self._release(block)
            block = aligned
        if self._size[block] > need + LEAST:
            self._release(self._split(block, need))
        return block

    def release(self, block: int) -> None:
        """Frees a block."""
        if block >= 0:
            self._release(block)
            return
        size = self._pages.pop(block)
        self._mapped -= size
        if self._threshold < size <= MOST_THRESHOLD:
            self._threshold, self._trim_from = size, 2 * size

    # --- taking ------------------------------------------------------------------------------

    def _take(self, need: int) -> int:
        if need <= FAST and self._fast.get(need):
            return self._hand_out(self._fast[need], need, fast=True)
        if need < SMALL:
            group = self._bins.get(need)
            if group:
                return self._hand_out(group, need, fast=False)
        elif self._fast_count:
            self._merge_fast()
        while True:
            block = self._of_unsorted(need)
            if block is None:
                block = self._of_bins(need)
            if block is not None:
                return block
            if self._end - self._top >= need + LEAST:
                return self._of_top(need)
            if not self._fast_count:
                break
            self._merge_fast()
        if need >= self._threshold:
            return self._map(need)
        missing = need + PAD + LEAST - (self._end - self._top)
        self._end += -(-missing // PAGE) * PAGE
        return self._of_top(need)

    def _hand_out(self, group: list[int], size: int, *, fast: bool) -> int:
        """One of a group; others of it are kept by size, as long as there is room."""
        kept = self._kept.setdefault(size, [])
        block, first = -1, True
        while group and (first or len(kept) < KEPT_EACH):
            each = group.pop() if fast else group.pop(0)
            if fast:
                self._fast_count -= 1
            else:
                del self._free[each]
            if first:
                block, first = each, False
            else:
                kept.append(each)
        if not fast and not group:
            self._forget_size(size)
        return block

    def _of_unsorted(self, need: int) -> int | None:
        """A chunk of just this size among those freed since; the others go to their bins."""
        kept = False
        while self._unsorted:
            block = self._unsorted.popleft()
            if self._free.get(block, 0) is not None:
                continue  # it was merged meanwhile
            size = self._size[block]
            if (
                need < SMALL
                and self._waiting == 1
                and block == self._remainder
                and size > need + LEAST
            ):
                self._waiting -= 1
                del self._free[block]
                self._remainder = self._split(block, need)
                self._set_free(self._remainder)
                return block
            self._waiting -= 1
            if size != need:
                self._sort(block, size)
                continue
            del self._free[block]
            group = self._kept.setdefault(size, [])
            if size > KEPT or len(group) >= KEPT_EACH:
                return block
            group.append(block)
            kept = True
        return self._kept[need].pop() if kept else None

    def _of_bins(self, need: int) -> int | None:
        """The smallest chunk that fits, split; of several the one that is found first."""
        place = bisect_left(self._sizes, need)
        if place == len(self._sizes):
            return None
        size = self._sizes[place]
        group = self._bins[size]
        if size < SMALL or len(group) == 1:
            block = group[0]
        else:
            block = group[-1] if need >= SMALL and _bin(size) == _bin(need) else group[1]
        self._unlink(block)
        if size - need >= LEAST:
            rest = self._split(block, need)
            self._set_free(rest)
            if need < SMALL:
                self._remainder = rest
        return block

    def _of_top(self, need: int) -> int:
        block = self._top
        self._size[block] = need
        if self._last is not None:
            self._before[block] = self._last
        self._top, self._last = block + need, block
        if self._top > self._touched:
            self.fresh += self._top - self._touched
            self._touched = self._top
            self._note()
        return block

    def _map(self, need: int) -> int:
        size = -(-(need + 8) // PAGE) * PAGE
        block = -1 - len(self._pages)
        while block in self._pages:
            block -= 1
        self._pages[block] = size
        self._mapped += size
        self.fresh += size
        self._note()
        return block

    def _note(self) -> None:
        self.peak = max(self.peak, self.resident)

    # --- giving back -------------------------------------------------------------------------

    def _release(self, block: int) -> None:
        size = self._size[block]
        if size <= KEPT:
            kept = self._kept.setdefault(size, [])
            if len(kept) < KEPT_EACH:
                kept.append(block)
                return
        if size <= FAST:
            self._fast.setdefault(size, []).append(block)
            self._fast_count += 1
            return
        if self._merge(block) >= MERGES:
            self._merge_fast()
            if self._end - self._top >= self._trim_from:
                self._end -= (self._end - self._top - LEAST - 1 - PAD) // PAGE * PAGE
                self._touched = min(self._touched, self._end)

    def _merge_fast(self) -> None:
        self._fast_count = 0
        for size in sorted(self._fast):
            for block in reversed(self._fast[size]):
                self._merge(block)
            self._fast[size] = []

    def _merge(self, block: int) -> int:
        """A chunk is free, and one with its free neighbours. Returns its size."""
        before = self._before.get(block)
        if before is not None and before in self._free:
            self._unlink(before)
            self._swallow(before, block)
            block = before
        after = block + self._size[block]
        if after == self._top:
            self._top, self._last = block, self._before.pop(block, None)
            del self._size[block]
            return self._end - self._top
        if after in self._free:
            self._unlink(after)
            self._swallow(block, after)
        self._set_free(block)
        return self._size[block]

    # --- chunks ------------------------------------------------------------------------------

    def _split(self, block: int, size: int) -> int:
        """Cuts a chunk after so many bytes; returns the rest."""
        rest = block + size
        self._resize(rest, self._size[block] - size)
        self._size[block] = size
        self._before[rest] = block
        return rest

    def _swallow(self, block: int, after: int) -> None:
        self._before.pop(after, None)
        self._resize(block, self._size[block] + self._size.pop(after))

    def _resize(self, block: int, size: int) -> None:
        self._size[block] = size
        after = block + size
        if after == self._top:
            self._last = block
        else:
            self._before[after] = block

    def _set_free(self, block: int) -> None:
        self._free[block] = None
        self._unsorted.append(block)
        self._waiting += 1

    def _sort(self, block: int, size: int) -> None:
        group = self._bins.setdefault(size, [])
        if not group:
            insort(self._sizes, size)
        group.append(block)
        self._free[block] = size

    def _unlink(self, block: int) -> None:
        size = self._free.pop(block)
        if size is None:
            self._waiting -= 1
            self._unsorted.remove(block)
            return
        group = self._bins[size]
        group.remove(block)
        if not group:
            self._forget_size(size)

    def _forget_size(self, size: int) -> None:
        del self._sizes[bisect_left(self._sizes, size)]
