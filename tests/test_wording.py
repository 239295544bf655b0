"""Tests that pin a sentence forbid better English: they are counted, and may only become fewer.

A sentence is four words or more, in a row or not, of one text: a word is letters alone, the first in
either case, with nothing joined to it but the marks of a sentence. What an assertion compares with a
text, searches for in one, or expects to begin or end it, counts, as do the names that refusals are
asked for and the facts of `wording.py`, be it that they come by a loop or as a test's parameters. In
what a message is to match three words are enough. Not counted: texts of several lines, which are
contents of files, and units.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.wording import assert_says, saying

TESTS: Final = Path(__file__).parent
# Lower it with what is mended. What is left: names in tables, patterns that read a number out of a
# line, lists of options, and texts that a test has given itself.
MOST_PINNED: Final = 22

WORD: Final = re.compile(
    r"(?<![^\s(\"'“‘])[A-Za-z][a-z]+(?:['’][a-z]+)?(?=[\s),;!?\"'”’]|[.:](?:\s|$)|$)"
)
UNITS: Final = frozenset({"ms", "min"})
SENTENCE, MATCHED = 4, 3  # words
OF_TEXTS: Final = frozenset(
    {
        "startswith", "endswith", "count", "index", "find", "partition", "rpartition", "removeprefix",
        "removesuffix", "split", "search", "match", "fullmatch", "findall",
    }
)  # fmt: skip
OF_FACTS: Final = frozenset({"assert_says", "saying", "refused"})


def _words(text: str) -> int:
    return sum(word not in UNITS for word in WORD.findall(text))


def _text(node: ast.expr) -> str | None:
    """The literal; of an f-string with {} for each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        return "".join(map(str, parts))
    return None


def _literals(node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """Texts that an operand is made of."""
    if (text := _text(node)) is not None:
        yield node, text
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for element in node.elts:
            yield from _literals(element)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from _literals(value)
    elif isinstance(node, ast.BinOp):
        yield from _literals(node.left)
        yield from _literals(node.right)
    elif isinstance(node, ast.IfExp):
        yield from _literals(node.body)
        yield from _literals(node.orelse)


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _compared(tree: ast.Module) -> Iterator[tuple[int, Iterable[ast.expr]]]:
    """Pairs of the words that make a sentence, and operands that may be one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            for part in ast.walk(node.test):
                if isinstance(part, ast.Compare):
                    yield SENTENCE, (part.left, *part.comparators)
                elif isinstance(part, ast.Call) and _called(part) in OF_TEXTS:
                    yield SENTENCE, part.args
        elif isinstance(node, ast.Call):
            if _called(node) in OF_FACTS:
                yield SENTENCE, node.args
            yield MATCHED, [each.value for each in node.keywords if each.arg == "match"]


def _names(node: ast.expr) -> list[str]:
    """Names that a value is taken apart to, in their order: a target, or what parametrize is told."""
    if isinstance(node, ast.Tuple | ast.List):
        return [name for each in node.elts for name in _names(each)]
    if isinstance(node, ast.Name):
        return [node.id]
    return [name.strip() for name in (_text(node) or "-").split(",")]


def _columns(names: list[str], rows: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What each name is in each of the rows, where they are written there."""
    for row in rows.elts if isinstance(rows, ast.List | ast.Tuple) else ():
        if isinstance(row, ast.Call) and _called(row) == "param":
            cells = row.args
        else:
            cells = row.elts if len(names) > 1 and isinstance(row, ast.Tuple) else [row]
        yield from zip(names, cells, strict=False)


def _passed_on(tree: ast.Module) -> Iterator[tuple[int, Iterable[ast.expr]]]:
    """As `_compared`, of what comes by a loop or as parameters to where it is compared."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            given = list(_columns(_names(node.target), node.iter))
        elif isinstance(node, ast.FunctionDef):
            given = [
                cell
                for call in node.decorator_list
                if isinstance(call, ast.Call) and _called(call) == "parametrize"
                for cell in _columns(_names(call.args[0]), call.args[1])
            ]
        else:
            continue
        compared = {
            name.id
            for _, operands in _compared(ast.Module(body=list(node.body), type_ignores=[]))
            for operand in operands
            for name in [operand.value if isinstance(operand, ast.Starred) else operand]
            if isinstance(name, ast.Name)
        }
        yield SENTENCE, [value for name, value in given if name in compared]


def pinned(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and text of each sentence that a module of tests pins."""
    found = {
        id(node): (node.lineno, text)
        for least, operands in (*_compared(tree), *_passed_on(tree))
        for operand in operands
        for node, text in _literals(operand)
        if _words(text) >= least and "\n" not in text.strip("\n")
    }
    return sorted(found.values())


def test_no_more_sentences_are_pinned_than_before() -> None:
    places = [
        f"{path.relative_to(TESTS)}:{line}: {text}"
        for path in sorted(TESTS.rglob("*.py"))
        for line, text in pinned(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert len(places) <= MOST_PINNED, "\n".join(places)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("assert said == 'the sampler was lost at 12.3 s'", 1),
        ("assert 'the sampler was lost' in said", 1),
        ("assert f'of {n} steps were left out' in said", 1),
        ("assert any(note.startswith('the sampler was lost') for note in notes)", 1),
        ("assert notes == ['the sampler was lost', {'why': 'the disk was full'}]", 2),
        ("assert_says(said, 'the sampler was lost')", 1),
        ("with pytest.raises(ValueError, match='empty parameter list'): pass", 1),
        ("for part in ('the disk', 'the sampler was lost'): assert part in said", 1),
        ("for n, part in ((1, 'the sampler was lost'),): assert_says(told[n], part)", 1),
        ("for part in ('the sampler was lost',): assert told(part) == 1", 0),
        ("@parametrize('words', ['the sampler was lost'])\ndef test(words): assert words in a", 1),
        (
            "@parametrize(('n', 'x'), [(1, 'the sampler was lost')])\ndef test(n, x): refused('i', *x)",
            1,
        ),
        (
            "@parametrize('line', ['the sampler was lost'])\ndef test(line): assert read(line) == 1",
            0,
        ),
        ("assert 'sampler was lost' in said", 0),
        ("assert '3 of 12 steps' in said", 0),
        ("assert '18.4 ms (17.5 to 19.3, measured)' in said", 0),
        ("assert shown == 'a/b c=d --power-model vcpu:1 run.json'", 0),
        ("assert path.read_text() == 'the first line of\\nthe file\\n'", 0),
        ("said = note('the sampler was lost at 12.3 s')", 0),
    ],
)
def test_what_is_a_pinned_sentence(source: str, count: int) -> None:
    assert len(pinned(ast.parse(source))) == count


def test_a_fact_is_asked_for_in_any_order_and_a_number_is_no_part_of_another() -> None:
    said = "3 of 12 steps took 5.25 ms"
    assert_says(said, "5.25 ms", 12, 3)
    for other in (1, 2, 5, "5.2", 25, "steps 12"):
        with pytest.raises(AssertionError, match=re.escape(str(other))):
            assert_says(said, other)
    assert saying([said, "12 steps", "120"], 12) == [said, "12 steps"]
    with pytest.raises(AssertionError):
        assert_says(None, "reason")
