"""Questions with their answers in a text: SQuAD 1.1 from disk, or Python's documentation in its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.workloads.data import docstrings
from wattstep.workloads.data.holding_out import split_last_tenth
from wattstep.workloads.data.samples import Array, Samples, describe, find_file
from wattstep.workloads.data.words import (
    CLASSIFY,
    PAD,
    SEPARATE,
    Piece,
    Split,
    find_pieces,
    hash_words,
    piece_words,
    read_bert_vocabulary,
    read_utf8,
)

NAME = "SQuAD 1.1"
TRAIN, DEV, VOCABULARY = "train-v1.1.json", "dev-v1.1.json", "vocab.txt"
# Devlin et al., arXiv 1810.04805, and the settings that its authors publish for SQuAD.
LENGTH = 384
LONGEST_QUESTION = 64
STRIDE = 128
# A few answers may be spelt otherwise than their text; more are a damaged file.
MISPLACED = 0.01
STAND_IN_FUNCTIONS = 2_500
NEIGHBOURS = 3


class Question(NamedTuple):
    """A question whose answer stands in a text.

    Attributes:
        text: The question.
        context: The text.
        start: First character of the answer in the context.
        end: The character after its last.
    """

    text: str
    context: str
    start: int
    end: int


def read_questions(data_dir: Path | None) -> Samples:
    """Questions with their texts (N, 384) in BERT's words; targets (N, 2) are the first and the
    last place of the answer.

    A row is [CLS], the question, [SEP], the text, [SEP] and padding. Of a text that is too long,
    it has the first part that holds the answer, of parts that begin 128 words apart; a question
    whose answer fits into none is left out. Without a `dev-v1.1.json` the last tenth is held out.
    Words are cut into pieces where the folder has the `vocab.txt` of BERT uncased, and else are
    hashed (`words.hash_words`).

    Raises:
        InvalidValueError: The files are there, but cannot be read.
    """
    path = find_file(data_dir, TRAIN)
    return _stand_in() if path is None else _official(path.parent)


def _official(folder: Path) -> Samples:
    vocabulary = folder / VOCABULARY
    pieces = vocabulary.is_file()
    split = piece_words(read_bert_vocabulary(vocabulary)) if pieces else hash_words()
    train, dev = folder / TRAIN, folder / DEV
    inputs, targets = encode(parse(train), split)
    judged = encode(parse(dev), split) if dev.is_file() else None
    words = "in word pieces" if pieces else "in hashed words"
    return _describe(f"{NAME} {words}", inputs, targets, held_out=judged, stands_for=None)


def _describe(
    name: str,
    inputs: Array,
    targets: Array,
    *,
    held_out: tuple[Array, Array] | None,
    stands_for: str | None,
) -> Samples:
    if held_out is None:
        (inputs, targets), held_out = split_last_tenth(inputs, targets)
    return describe(
        name=name, inputs=inputs, targets=targets, held_out=held_out, stands_for=stands_for
    )


def parse(path: Path) -> list[Question]:
    """The questions of a file of SQuAD 1.1, each with the first answer that people gave.

    Raises:
        InvalidValueError: It is no such file, or answers do not stand where it says.
    """
    try:
        pairs = list(_walk(json.loads(read_utf8(path))))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, InvalidValueError):
            raise
        raise InvalidValueError(
            f"{path}: not a file of {NAME} ({error!r})", id="damaged-data-file"
        ) from error
    right = [
        question for question, answer in pairs if question.context[slice(*question[2:])] == answer
    ]
    if not right or len(right) < (1 - MISPLACED) * len(pairs):
        raise InvalidValueError(
            f"{path}: {len(pairs) - len(right)} of {len(pairs)} answers do not stand where it says",
            id="misplaced-answers",
        )
    return right


def _walk(document: Any) -> Iterator[tuple[Question, str]]:
    for article in document["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                answer = asked["answers"][0]
                start, text = int(answer["answer_start"]), str(answer["text"])
                context, question = str(paragraph["context"]), str(asked["question"])
                yield Question(question, context, start, start + len(text)), text


def encode(questions: Sequence[Question], split: Split) -> tuple[Array, Array]:
    """Rows (N, 384) and targets (N, 2), as in `read_questions`."""

    @lru_cache(maxsize=8)  # the questions on a text follow each other
    def take_apart(text: str) -> list[Piece]:
        return find_pieces(text, split)

    encoded = (_encode(each, take_apart(each.text), take_apart(each.context)) for each in questions)
    rows = [row for row in encoded if row is not None]
    inputs = np.full((len(rows), LENGTH), PAD, np.int16)
    for place, (row, _) in zip(inputs, rows, strict=True):
        place[: len(row)] = row
    targets = np.array([target for _, target in rows], np.int16).reshape(-1, 2)
    return inputs, targets


def _encode(
    question: Question, asked: Sequence[Piece], context: Sequence[Piece]
) -> tuple[list[int], tuple[int, int]] | None:
    """A row without padding, and its target; None where no part of the text holds the answer."""
    places = [n for n, piece in enumerate(context) if _overlap(piece, question)]
    asked = asked[:LONGEST_QUESTION]
    room = LENGTH - len(asked) - 3
    if not places:
        return None
    parts_before = max(0, -(-(places[-1] + 1 - room) // STRIDE))
    start = parts_before * STRIDE
    if places[0] < start:
        return None
    part = [piece.number for piece in context[start : start + room]]
    row = [CLASSIFY, *(piece.number for piece in asked), SEPARATE, *part, SEPARATE]
    shift = len(asked) + 2 - start
    return row, (places[0] + shift, places[-1] + shift)


def _overlap(piece: Piece, question: Question) -> bool:
    return piece.start < question.end and piece.end > question.start


def _stand_in() -> Samples:
    inputs, targets = encode(_ask(docstrings.read_functions(STAND_IN_FUNCTIONS)), hash_words())
    name = f"questions about the functions of {docstrings.NAME}, in hashed words"
    return _describe(name, inputs, targets, held_out=None, stands_for=NAME)


def _ask(functions: Sequence[docstrings.Documented]) -> list[Question]:
    """What does each function do? The answer is the first sentence of its documentation, which
    stands among that of its neighbours."""
    questions = []
    for n, function in enumerate(functions):
        first = n - n % NEIGHBOURS
        entries = [
            f"{near.name}: {near.document}" for near in functions[first : first + NEIGHBOURS]
        ]
        before = sum(len(entry) + 1 for entry in entries[: n - first]) + len(function.name) + 2
        sentence = re.split(r"(?<=[.!?])\s|\n\n", function.document, maxsplit=1)[0]
        asked = f"What does {function.name} do?"
        questions.append(Question(asked, "\n".join(entries), before, before + len(sentence)))
    return questions
