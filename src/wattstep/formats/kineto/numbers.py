"""Times as written (µs with decimals) as whole nanoseconds, exactly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

DECIMALS = 3  # of a µs, that are whole ns
MOST_DIGITS = 16  # of whole µs; those of today have as many
MOST_FIRST = ord("3")  # of the first of 16 digits: below 4e18 ns, what is larger needs care
LARGEST_NS = 1 << 62  # half of int64: a begin and a duration can be added
PLAIN = b"0123456789.,"
NUMBER = re.compile(rb'"?\s*(-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,4})?)\s*"?')


def nanoseconds(
    texts: Sequence[bytes],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Numbers of µs as ns, and which of the texts are numbers.

    A float64 holds microseconds since 1970 to a quarter of one only; so the digits are read, not
    the number. What is finer than a nanosecond is rounded to the nearest, halves to the even one.

    Args:
        texts: As in the file; a number in quotes is a number, too. Anything with a buffer.
    """
    text = b",".join(texts)
    if (quick := _plain(text, len(texts))) is not None:
        return quick, np.ones(len(texts), np.bool_)
    values = [_careful(bytes(one)) for one in texts]
    known = np.array([value is not None for value in values], np.bool_)
    return np.array([value or 0 for value in values], np.int64), known


def _plain(text: bytes, count: int) -> NDArray[np.int64] | None:
    """All at once, where every text is digits with at most three decimals; else None."""
    if not count or text.translate(None, PLAIN):
        return None
    chars = np.frombuffer(text, np.uint8)
    commas = np.flatnonzero(chars == ord(","))
    if len(commas) != count - 1:
        return None
    begins = np.concatenate([[0], commas + 1])
    ends = np.concatenate([commas, [len(text)]])
    dots = np.flatnonzero(chars == ord("."))
    where = np.searchsorted(commas, dots)
    points = ends.copy()
    points[where] = dots
    decimals = np.zeros(count, np.int64)
    decimals[where] = ends[where] - dots - 1
    whole = points - begins
    odd = (decimals[where] < 1) | (decimals[where] > DECIMALS) | (np.diff(where, prepend=-1) == 0)
    if odd.any() or whole.min() < 1 or whole.max() > MOST_DIGITS:
        return None
    if (chars[begins[whole == MOST_DIGITS]] > MOST_FIRST).any():
        return None
    digits = np.fromstring(text.replace(b".", b""), np.int64, sep=",")
    return digits * 10 ** (DECIMALS - decimals)


def _careful(text: bytes) -> int | None:
    """Parsed number; None if it is not a number, or beyond what a clock of nanoseconds holds."""
    match = NUMBER.fullmatch(text)
    if not match:
        return None
    try:
        value = Decimal(match[1].decode()).scaleb(DECIMALS)
    except InvalidOperation:
        return None
    if value.adjusted() > len(str(LARGEST_NS)):
        return None
    whole = int(value.to_integral_value())
    return whole if abs(whole) < LARGEST_NS else None
