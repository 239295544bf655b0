"""Words as numbers of BERT's vocabulary, and bytes as tokens of GPT-2's."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from wattstep.errors import InvalidValueError
from wattstep.workloads.data.samples import read_bytes

# The uncased vocabulary of Devlin et al., arXiv 1810.04805, as its authors publish it: its size
# and the places of its special words.
BERT_WORDS: Final = 30_522
PAD, UNKNOWN, CLASSIFY, SEPARATE = 0, 100, 101, 102
SPECIAL = {"[PAD]": PAD, "[UNK]": UNKNOWN, "[CLS]": CLASSIFY, "[SEP]": SEPARATE}
# The first whole word in it ("the"): below lie special words and single characters.
FIRST_WORD = 1_996
# A longer word is unknown; it is a line of dashes or an address.
LONGEST_WORD = 100

Split = Callable[[str], tuple[int, ...]]

_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")


class Piece(NamedTuple):
    """A part of a word, and where that word lies in the text.

    Attributes:
        number: Of the part, in the vocabulary.
        start: First character of the word.
        end: The character after its last.
    """

    number: int
    start: int
    end: int


def find_pieces(text: str, split: Split) -> list[Piece]:
    """The pieces of a text: its words and punctuation marks, each as `split` takes it apart."""
    return [
        Piece(number, match.start(), match.end())
        for match in _WORD.finditer(text)
        for number in split(match.group())
    ]


def hash_words() -> Split:
    """Gives each word a number without a vocabulary: its CRC-32, modulo the whole words of BERT's.

    Words that share a number cannot be distinguished: about one in two of a text of 20,000 words.
    """

    def split(word: str) -> tuple[int, ...]:
        plain = _plain(word).encode()
        return (FIRST_WORD + zlib.crc32(plain) % (BERT_WORDS - FIRST_WORD),)

    return lru_cache(maxsize=2**16)(split)


def piece_words(vocabulary: Mapping[str, int]) -> Split:
    """Takes words apart into the longest pieces that the vocabulary knows, from the left.

    Source: Wu et al., arXiv 1609.08144, section 4.1, in the form of Devlin et al.: a piece that
    goes on with a word begins with "##".
    """

    def split(word: str) -> tuple[int, ...]:
        left = _plain(word)
        if len(left) > LONGEST_WORD:
            return (UNKNOWN,)
        numbers, mark = [], ""
        while left:
            ends = range(len(left), 0, -1)
            end = next((end for end in ends if mark + left[:end] in vocabulary), None)
            if end is None:
                return (UNKNOWN,)
            numbers.append(vocabulary[mark + left[:end]])
            left, mark = left[end:], "##"
        return tuple(numbers)

    return lru_cache(maxsize=2**16)(split)


def read_bert_vocabulary(path: Path) -> dict[str, int]:
    """The numbers of the word pieces in a `vocab.txt`: a piece a line.

    Raises:
        InvalidValueError: It is not that of the uncased BERT.
    """
    pieces = read_utf8(path).removesuffix("\n").split("\n")
    vocabulary = {piece.rstrip("\r"): number for number, piece in enumerate(pieces)}
    special = {piece: vocabulary.get(piece) for piece in SPECIAL}
    if len(pieces) != BERT_WORDS or special != SPECIAL:
        raise InvalidValueError(
            f"{path}: not the vocabulary of BERT uncased, whose {BERT_WORDS} lines have "
            f"[PAD], [UNK], [CLS] and [SEP] at {', '.join(map(str, SPECIAL.values()))}",
            id="damaged-data-file",
        )
    return vocabulary


def byte_tokens() -> npt.NDArray[np.uint8]:
    """The token of each byte (256,) in GPT-2's vocabulary, whose first 256 are the bytes.

    Those that print come first, in the order of Latin-1, then the others in theirs: newline is
    198 and the space 220. Whisper's vocabulary begins with the same.
    Source: Radford et al. 2019, section 2.2, and the table that GPT-2 was published with.
    """
    printing = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order = printing + [byte for byte in range(256) if byte not in printing]
    return np.argsort(np.array(order)).astype(np.uint8)


def read_utf8(path: Path) -> str:
    """The text of a file, unpacked where its name ends in .gz.

    Raises:
        InvalidValueError: It cannot be read, or is not text in UTF-8.
    """
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidValueError(f"{path}: not text in UTF-8 ({error})", id="not-utf8") from error


def _plain(word: str) -> str:
    """Small letters without accents, as the uncased BERT reads them."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")
