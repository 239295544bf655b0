"""Questions, translations and words: the official formats, and what stands in for them."""

import functools
import json

import numpy as np
import pytest
from tests.refusals import refused

from wattstep.workloads.data.docstrings import read_functions
from wattstep.workloads.data.iwslt import read_translations
from wattstep.workloads.data.squad import Question, encode, parse, read_questions
from wattstep.workloads.data.words import (
    byte_tokens,
    find_pieces,
    hash_words,
    piece_words,
    read_bert_vocabulary,
)

# Words


def test_bytes_have_the_tokens_of_gpt2():
    tokens = byte_tokens()
    # As in its published table: "!" is 0, "A" 32, newline 198, the space 220.
    assert [tokens[ord(letter)] for letter in "!A\n "] == [0, 32, 198, 220]
    assert sorted(tokens.tolist()) == list(range(256))


def test_a_text_falls_into_words_and_marks_with_their_places():
    text = "Don't  pay £5_000."
    pieces = find_pieces(text, lambda word: (len(word),))
    assert [text[piece.start : piece.end] for piece in pieces] == [
        *("Don", "'", "t", "pay", "£", "5", "_", "000", ".")
    ]


def test_a_hashed_word_is_the_same_in_capitals_and_with_accents():
    split = hash_words()
    assert split("Élan") == split("elan") != split("clan")
    numbers = {number for n in range(1000) for number in split(str(n))}
    # Among whole words of BERT's vocabulary; few of a thousand share one of 28,526.
    assert min(numbers) >= 1996
    assert max(numbers) < 30_522
    assert len(numbers) > 950


def test_a_word_is_taken_apart_into_the_longest_pieces_that_are_known():
    split = piece_words({"un": 1, "una": 2, "##aff": 3, "##ff": 4, "##able": 5, "[UNK]": 100})
    assert split("Unaffable") == (2, 4, 5)
    assert split("un") == (1,)
    assert split("unaffabler") == (100,)
    assert split("a" * 101) == (100,)


def vocabulary(**places):
    lines = [f"[unused{n}]" for n in range(30_522)]
    special = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102}
    for word, number in {**special, **places}.items():
        lines[number] = word
    return lines


def test_the_vocabulary_of_bert_is_read_by_lines(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(vocabulary(hello=7592)) + "\n", encoding="utf-8")
    assert read_bert_vocabulary(path)["hello"] == 7592


@pytest.mark.parametrize(
    "lines", [vocabulary()[:-1], [*vocabulary(), "more"], vocabulary(other=101), ["[PAD]"]]
)
def test_another_vocabulary_is_refused(tmp_path, lines):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    with refused("damaged-data-file", "vocab.txt", "BERT"):
        read_bert_vocabulary(path)


# SQuAD

CONTEXT = "The Norman dynasty had a major impact. Rollo, a Viking, was its first ruler."


def asked(question, answer, *, context=CONTEXT, start=None):
    place = context.index(answer) if start is None else start
    answers = [{"answer_start": place, "text": answer}, {"answer_start": 0, "text": "The"}]
    return {"id": "0", "question": question, "answers": answers}


def squad(*questions, context=CONTEXT):
    paragraph = {"context": context, "qas": list(questions)}
    return {"version": "1.1", "data": [{"title": "Normans", "paragraphs": [paragraph]}]}


def write(folder, name, document):
    folder.mkdir(exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


WHO = asked("Who was the first ruler?", "Rollo, a Viking")


def test_a_question_becomes_a_row_in_which_the_answer_is_marked(tmp_path):
    write(tmp_path, "train-v1.1.json", squad(WHO))
    samples = read_questions(tmp_path)
    assert (samples.facts.stand_in, samples.facts.samples) == (False, 1)
    assert samples.inputs.shape == (1, 384)
    row = samples.inputs[0].tolist()
    split = hash_words()

    def numbers(text):
        return [number for word in text.split() for number in split(word)]

    text = "The Norman dynasty had a major impact . Rollo , a Viking , was its first ruler ."
    expected = [101, *numbers("Who was the first ruler ?"), 102, *numbers(text), 102]
    assert row == expected + [0] * (384 - len(expected))
    # [CLS], six words and [SEP] come before the text; Rollo is its ninth, Viking its twelfth.
    assert samples.targets.tolist() == [[8 + 8, 8 + 11]]


def test_words_are_cut_into_the_pieces_of_a_vocabulary_beside_the_file(tmp_path):
    write(tmp_path / "squad", "train-v1.1.json", squad(WHO))
    listed = vocabulary(**{"rollo": 2000, "ruler": 2001, "##o": 2002, "vi": 2003, "##king": 2004})
    write(tmp_path / "squad", "vocab.txt", "\n".join(listed))
    samples = read_questions(tmp_path)
    assert samples.facts.name == "SQuAD 1.1 in word pieces"
    first, last = samples.targets[0]
    # "," and "a" are not in this vocabulary.
    assert samples.inputs[0, first : last + 1].tolist() == [2000, 100, 100, 2003, 2004]


def test_the_development_file_is_held_out(tmp_path):
    write(tmp_path, "train-v1.1.json", squad(*[WHO] * 3))
    write(tmp_path, "dev-v1.1.json", squad(*[WHO] * 2))
    samples = read_questions(tmp_path)
    assert (len(samples.inputs), len(samples.held_out_inputs)) == (3, 2)


def test_without_one_the_last_tenth_is(tmp_path):
    last = asked("What was he?", "Viking")
    write(tmp_path, "train-v1.1.json", squad(*[WHO] * 9, last))
    samples = read_questions(tmp_path)
    assert (len(samples.inputs), len(samples.held_out_inputs)) == (9, 1)
    assert samples.held_out_targets[0, 0] == samples.held_out_targets[0, 1]


def test_of_a_long_text_the_first_part_that_holds_the_answer_is_kept(tmp_path):
    words = [f"w{n}" for n in range(900)]
    context = " ".join(words)
    questions = [
        asked("Which?", "w379", context=context),
        asked("Which?", "w380", context=context),
        asked("Which?", "w510 w511", context=context),
        # 400 words fit into no row of 384.
        asked("Which?", " ".join(words[100:500]), context=context),
    ]
    write(tmp_path, "train.json", squad(*questions, context=context))
    inputs, targets = encode(parse(tmp_path / "train.json"), lambda word: (len(word) + 10,))
    assert inputs.shape == (3, 384)
    # 379 words fit beside "Which ?" and three marks; parts begin at word 0, 128, 256 ...
    # Word 379 is the 380th: the part from 128 on; all behind [CLS] Which ? [SEP].
    assert targets[:2].tolist() == [[4 + 379 - 128] * 2, [4 + 380 - 128] * 2]
    assert targets[2].tolist() == [4 + 510 - 256, 4 + 511 - 256]


def test_a_long_question_is_cut():
    question = Question("why " * 100, "because", 0, 7)
    inputs, targets = encode([question], lambda word: (7,))
    # [CLS], 64 words, [SEP], the text.
    assert np.flatnonzero(inputs[0] == 102).tolist() == [65, 67]
    assert targets.tolist() == [[66, 66]]


@pytest.mark.parametrize(
    ("document", "id", "named"),
    [
        ("", "damaged-data-file", "SQuAD 1.1"),
        ('{"data": [', "damaged-data-file", "SQuAD 1.1"),
        ("[1, 2]", "damaged-data-file", "SQuAD 1.1"),
        ({"data": [{"title": "x"}]}, "damaged-data-file", "SQuAD 1.1"),
        (squad({"question": "?", "answers": []}), "damaged-data-file", "SQuAD 1.1"),
        ({"data": []}, "misplaced-answers", "0 of 0"),
        (squad(WHO, asked("Where?", "France", start=3)), "misplaced-answers", "1 of 2"),
    ],
)
@pytest.mark.parametrize("file", ["train-v1.1.json", "dev-v1.1.json"])
def test_a_faulty_file_of_squad_is_named(tmp_path, file, document, id, named):
    write(tmp_path, "train-v1.1.json", squad(WHO))
    write(tmp_path, file, document)
    with refused(id, file, named):
        read_questions(tmp_path)


def test_one_misplaced_answer_in_a_hundred_is_left_out(tmp_path):
    write(tmp_path, "a.json", squad(*[WHO] * 99, asked("Where?", "France", start=3)))
    assert len(parse(tmp_path / "a.json")) == 99


def test_bytes_that_are_no_text_are_named(tmp_path):
    (tmp_path / "train-v1.1.json").write_bytes(b"\xff\xfe{}")
    with refused("not-utf8", "train-v1.1.json"):
        read_questions(tmp_path)


# IWSLT'15

IWSLT = {
    "vocab.en": "<unk>\n<s>\n</s>\nRachel\nscience\n&apos;s\n",
    "vocab.vi": "<unk>\n<s>\n</s>\nKhoa\nhọc\n",
    "train.en": "Rachel science nobody\nscience\n\nscience science\n",
    "train.vi": "Khoa học\nhọc ai\nKhoa\n\n",
    "tst2012.en": "Rachel &apos;s science\n",
    "tst2012.vi": "Khoa\n",
}


def write_iwslt(folder, **changed):
    folder.mkdir(exist_ok=True)
    for name, text in {**IWSLT, **changed}.items():
        if text is not None:
            (folder / name).write_text(text, encoding="utf-8")


def test_sentences_are_numbers_of_their_vocabularies(tmp_path):
    write_iwslt(tmp_path / "iwslt15")
    samples = read_translations(tmp_path)
    assert (samples.facts.name, samples.facts.stand_in) == ("IWSLT'15 English-Vietnamese", False)
    # Pairs with an empty side are left out.
    assert samples.inputs.shape == (2, 2, 50)
    assert samples.targets.shape == (2, 50)
    # Rachel, science and an unknown word; then the end to the end.
    assert samples.inputs[0, 0].tolist() == [3, 4, 0] + [2] * 47
    # What the decoder reads begins with the mark and lies one behind what it should say.
    assert samples.inputs[0, 1].tolist() == [1, 3, 4] + [2] * 47
    assert samples.targets[0].tolist() == [3, 4, 2] + [-100] * 47
    assert samples.inputs[1, 1, :3].tolist() == [1, 4, 0]
    assert samples.held_out_inputs[:, 0, :4].tolist() == [[3, 5, 4, 2]]


def test_a_long_sentence_is_cut_with_its_end_mark(tmp_path):
    long = {"train.en": "science " * 60 + "\n", "train.vi": "Khoa " * 60 + "\n"}
    write_iwslt(tmp_path, **long)
    samples = read_translations(tmp_path)
    assert samples.inputs[0].tolist() == [[4] * 50, [1] + [3] * 49]
    assert samples.targets[0].tolist() == [3] * 49 + [2]


def test_without_a_test_set_the_last_tenth_is_held_out(tmp_path):
    files = {"train.en": "science\n" * 20, "train.vi": "Khoa\n" * 18 + "học\n" * 2}
    write_iwslt(tmp_path, **files, **{"tst2012.en": None, "tst2012.vi": None})
    samples = read_translations(tmp_path)
    assert (len(samples.inputs), len(samples.held_out_inputs)) == (18, 2)
    assert samples.held_out_targets[:, 0].tolist() == [4, 4]


@pytest.mark.parametrize(
    ("files", "id", "named"),
    [
        ({"vocab.en": ""}, "damaged-data-file", ["vocab.en"]),
        ({"vocab.vi": "<s>\n<unk>\n</s>\n"}, "damaged-data-file", ["vocab.vi"]),
        (
            {"vocab.vi": "<unk>\n<s>\n</s>\n" + "\n".join(map(str, range(7_707)))},
            "damaged-data-file",
            ["vocab.vi", "7709"],
        ),
        ({"train.vi": "Khoa\n"}, "unequal-counts", ["train.vi: 1", "4 of train.en"]),
        ({"train.vi": None}, "unreadable-data-file", ["train.vi"]),
        ({"vocab.en": None}, "unreadable-data-file", ["vocab.en"]),
        ({"train.en": "\n\n", "train.vi": "\n\n"}, "no-sentences", ["train.en"]),
        ({"tst2012.vi": "a\nb\nc\n"}, "unequal-counts", ["tst2012.vi: 3", "1 of tst2012.en"]),
    ],
)
def test_a_faulty_file_of_iwslt_is_named(tmp_path, files, id, named):
    write_iwslt(tmp_path, **files)
    with refused(id, *named):
        read_translations(tmp_path)


# Stand-ins


@functools.cache
def stand_in(read):
    return read(None)


def test_documented_functions_come_with_their_code_and_without_their_documentation_in_it():
    functions = read_functions(50)
    assert len(functions) == 50
    for function in functions:
        assert f"def {function.name}(" in function.code
        assert function.document.splitlines()[0] not in function.code
    assert read_functions(50) == functions


@pytest.mark.parametrize(
    ("read", "official", "shape"),
    [
        (read_questions, "SQuAD 1.1", (384,)),
        (read_translations, "IWSLT'15 English-Vietnamese", (2, 50)),
    ],
)
def test_without_official_files_a_stand_in_says_what_it_is(tmp_path, read, official, shape):
    samples = read(tmp_path)
    assert samples.facts.stand_in
    assert samples.facts.stands_for == official
    assert "library of Python" in samples.facts.name
    assert samples.inputs.shape == (samples.facts.samples, *shape)
    assert len(samples.inputs) > 2000
    assert len(samples.held_out_inputs) > 200
    assert stand_in(read).facts == samples.facts


@pytest.mark.parametrize("read", [read_questions, read_translations])
def test_a_folder_that_is_not_there_is_refused(tmp_path, read):
    with refused("no-such-folder", "nowhere"):
        read(tmp_path / "nowhere")


def test_answers_of_the_stand_in_lie_in_the_text_behind_the_question():
    samples = stand_in(read_questions)
    first, last = samples.targets.T
    marks = (samples.inputs == 102).argmax(axis=1)
    assert (marks < first).all()
    assert (first <= last).all()
    assert (np.take_along_axis(samples.inputs, samples.targets.astype(np.int64), 1) >= 1996).all()
    # They are not always in the same place.
    assert len(set(first.tolist())) > 100


def test_numbers_of_the_stand_in_lie_within_the_vocabularies_of_iwslt():
    samples = stand_in(read_translations)
    assert samples.inputs[:, 0].max() < 17_191
    assert samples.inputs[:, 1].max() < 7_709
    assert samples.targets.max() < 7_709
    assert samples.inputs.min() >= 0
