"""Sentences with their translations: IWSLT'15 English-Vietnamese from disk, or documentation with code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.workloads.data import docstrings
from wattstep.workloads.data.samples import Array, Samples, describe, find_file
from wattstep.workloads.data.words import read_utf8

NAME = "IWSLT'15 English-Vietnamese"
# The vocabularies of the files as Stanford prepared them (Luong and Manning, IWSLT 2015).
SOURCE_WORDS: Final = 17_191
TARGET_WORDS: Final = 7_709
# The first three words of each; a sentence is filled up with the end.
UNKNOWN, BEGIN, END = 0, 1, 2
SPECIAL = ("<unk>", "<s>", "</s>")
# Longer sentences are cut: Luong, Brevdo and Zhao, TensorFlow NMT tutorial, src_max_len.
LENGTH = 50
# What the loss leaves out: torch's own mark.
IGNORED = -100
# Where there are no files to be judged by, the last tenth of the pairs is held out.
HELD_OUT = 10
STAND_IN_FUNCTIONS = 2_500

Sentences = Sequence[Sequence[str]]

_WORD = re.compile(r"\w+|[^\w\s]")


class Pairs(NamedTuple):
    """Sentences in words, and their translations."""

    sources: Sentences
    targets: Sentences


def read_translations(data_dir: Path | None) -> Samples:
    """Pairs of sentences (N, 2, 50) in numbers of their vocabularies.

    The first row of a pair is the sentence, filled up with the end mark; the second is what the
    decoder reads: the begin mark and the translation. The targets (N, 50) are the translation and
    the end mark, then `IGNORED`.

    Raises:
        InvalidValueError: The files are there, but cannot be read.
    """
    path = find_file(data_dir, "train.en")
    return _stand_in() if path is None else _official(path.parent)


def _official(folder: Path) -> Samples:
    vocabularies = (
        read_vocabulary(folder / "vocab.en", words=SOURCE_WORDS),
        read_vocabulary(folder / "vocab.vi", words=TARGET_WORDS),
    )
    train = _read_pairs(folder, "train")
    judged = _read_pairs(folder, "tst2012") if (folder / "tst2012.en").is_file() else None
    train, judged = _hold_out(train) if judged is None else (train, judged)
    return _describe(NAME, train, judged, vocabularies, stands_for=None)


def read_vocabulary(path: Path, *, words: int) -> dict[str, int]:
    """The numbers of the words in a file with a word a line.

    Raises:
        InvalidValueError: It cannot be read, has more than `words`, or does not begin with the
            three marks.
    """
    listed = read_utf8(path).split()
    if tuple(listed[:3]) != SPECIAL or len(listed) > words:
        raise InvalidValueError(
            f"{path}: not a vocabulary of {NAME}, which is {' '.join(SPECIAL)} and other words, "
            f"{words} at most",
            id="damaged-data-file",
        )
    return {word: number for number, word in enumerate(listed)}


def _read_pairs(folder: Path, name: str) -> Pairs:
    """The pairs of two files, less those of which a side is empty."""
    paths = folder / f"{name}.en", folder / f"{name}.vi"
    sources, targets = (
        [line.split() for line in read_utf8(path).removesuffix("\n").split("\n")] for path in paths
    )
    if len(sources) != len(targets):
        raise InvalidValueError(
            f"{paths[1]}: {len(targets)} lines for the {len(sources)} of {paths[0].name}",
            id="unequal-counts",
        )
    pairs = [pair for pair in zip(sources, targets, strict=True) if all(pair)]
    if not pairs:
        raise InvalidValueError(f"{paths[0]}: there is no sentence in it", id="no-sentences")
    return Pairs([source for source, _ in pairs], [target for _, target in pairs])


def _hold_out(pairs: Pairs) -> tuple[Pairs, Pairs]:
    count = len(pairs.sources) - len(pairs.sources) // HELD_OUT
    first, last = slice(None, count), slice(count, None)
    return (
        Pairs(pairs.sources[first], pairs.targets[first]),
        Pairs(pairs.sources[last], pairs.targets[last]),
    )


def _describe(
    name: str,
    train: Pairs,
    judged: Pairs,
    vocabularies: tuple[dict[str, int], dict[str, int]],
    *,
    stands_for: str | None,
) -> Samples:
    inputs, targets = encode(train, *vocabularies)
    return describe(
        name=name,
        inputs=inputs,
        targets=targets,
        held_out=encode(judged, *vocabularies),
        stands_for=stands_for,
    )


def encode(
    pairs: Pairs, source_words: dict[str, int], target_words: dict[str, int]
) -> tuple[Array, Array]:
    """Inputs (N, 2, 50) and targets (N, 50), as in `read_translations`."""
    inputs = np.full((len(pairs.sources), 2, LENGTH), END, np.int16)
    targets = np.full((len(pairs.sources), LENGTH), IGNORED, np.int16)
    for n, (source, target) in enumerate(zip(*pairs, strict=True)):
        heard = _look_up(source[:LENGTH], source_words)
        shifted = _look_up(target[: LENGTH - 1], target_words)
        inputs[n, 0, : len(heard)] = heard
        inputs[n, 1, : len(shifted) + 1] = [BEGIN, *shifted]
        targets[n, : len(shifted) + 1] = [*shifted, END]
    return inputs, targets


def _look_up(words: Iterable[str], vocabulary: dict[str, int]) -> list[int]:
    return [vocabulary.get(word, UNKNOWN) for word in words]


def _stand_in() -> Samples:
    functions = docstrings.read_functions(STAND_IN_FUNCTIONS)
    written = [
        (_WORD.findall(function.document.partition("\n\n")[0]), _WORD.findall(function.code))
        for function in functions
    ]
    pairs = [pair for pair in written if all(pair)]
    train, judged = _hold_out(Pairs([source for source, _ in pairs], [code for _, code in pairs]))
    vocabularies = (
        _most_frequent(train.sources, words=SOURCE_WORDS),
        _most_frequent(train.targets, words=TARGET_WORDS),
    )
    name = f"documentation and code of functions of {docstrings.NAME}"
    return _describe(name, train, judged, vocabularies, stands_for=NAME)


def _most_frequent(sentences: Sentences, *, words: int) -> dict[str, int]:
    """A vocabulary of the most frequent words, the marks first."""
    counted = Counter(word for sentence in sentences for word in sentence)
    listed = [*SPECIAL, *(word for word, _ in counted.most_common(words - len(SPECIAL)))]
    return {word: number for number, word in enumerate(listed)}
