"""Writes the lists of docs/errors.md: `python docs/errors_table.py docs/errors.md`.

What stands between the two marks is made from `src/wattstep`: the ids of classes of errors, and those that
stand where an error is made; the rest is kept.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "wattstep"
BASE = "WattstepError"
BEGIN, END = "<!-- ids: begin -->\n", "<!-- ids: end -->\n"
VALUE = "…"


@dataclass(frozen=True, kw_only=True, order=True)
class Refusal:
    """A place that makes an error with an id.

    Attributes:
        id: Its id.
        kind: Class of the error.
        line: The error's line, with "…" for each value.
    """

    id: str
    kind: str
    line: str


@functools.cache
def parsed() -> list[ast.Module]:
    """The modules of wattstep that make or define an error with an id, `errors.py` first."""
    paths = sorted(SOURCE.rglob("*.py"), key=lambda path: (path != SOURCE / "errors.py", path))
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return [ast.parse(text) for text in texts if re.search(r"Error\(", text) and "id" in text]


def kinds(modules: list[ast.Module]) -> dict[str, ast.ClassDef]:
    """Classes of wattstep's errors, by name, each after its base."""
    classes = [n for m in modules for n in ast.walk(m) if isinstance(n, ast.ClassDef)]
    errors = {BASE: next(each for each in classes if each.name == BASE)}
    while True:
        more = {
            each.name: each
            for each in classes
            if each.name not in errors
            and {ast.unparse(base) for base in each.bases} & errors.keys()
        }
        if not more:
            return errors
        errors.update(more)


def id_of(kind: ast.ClassDef) -> str | None:
    """The id that the class itself gives, or None."""
    for node in kind.body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        target = node.targets[0] if isinstance(node, ast.Assign) else target
        if isinstance(target, ast.Name) and target.id == "id":
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            assert isinstance(node.value, ast.Constant)
            return str(node.value.value)
    return None


def refusals(modules: list[ast.Module]) -> list[Refusal]:
    """Every place that gives an error an id of its own, sorted by id."""
    names = kinds(modules).keys()
    return sorted({each for module in modules for each in _of(module, names)})


def _of(module: ast.Module, names: Collection[str]) -> Iterator[Refusal]:
    functions = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef)]
    for scope in (module, *functions):
        for node in _own(scope):
            if not isinstance(node, ast.Call):
                continue
            kind = ast.unparse(node.func)
            ids = [keyword.value for keyword in node.keywords if keyword.arg == "id"]
            if kind in names and ids and isinstance(ids[0], ast.Constant):
                local = {
                    ast.unparse(
                        each.targets[0] if isinstance(each, ast.Assign) else each.target
                    ): each.value
                    for each in (*module.body, *_own(scope))
                    if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None
                }
                words = _words(node.args[-1], local) if node.args else VALUE
                line = re.sub(rf"{VALUE}+", VALUE, words)
                yield Refusal(id=str(ids[0].value), kind=kind, line=line)


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function, those of functions within it left out."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef):
            yield node
            yield from _own(node)


def _words(node: ast.expr, local: Mapping[str, ast.expr]) -> str:
    """Text of an expression, with "…" for what is known only when it is worked out."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_words(part, local) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _words(left, local) + _words(right, local)
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
            return re.sub(r"%[a-z]", VALUE, text)
        case ast.IfExp(body=body):
            return _words(body, local)
        case ast.Name(id=name) if isinstance(local.get(name), ast.JoinedStr | ast.Constant):
            return _words(local[name], {})
    return VALUE


def listed() -> str:
    """The ids as tables of Markdown."""
    modules = parsed()
    found = kinds(modules)
    general = [
        f"| `{id_of(kind)}` | `{name}` | {(ast.get_docstring(kind) or '').splitlines()[0]} |"
        for name, kind in found.items()
        if id_of(kind) is not None
    ]
    own = [f"| `{each.id}` | `{each.kind}` | {_cell(each.line)} |" for each in refusals(modules)]
    return "\n".join([
        "", "## Of a class", "", "| id | class | meaning |", "|---|---|---|", *general,
        "", "## Of one refusal", "", "| id | class | line |", "|---|---|---|", *own, "", "",
    ])  # fmt: skip


def _cell(line: str) -> str:
    """A line as a cell of a table: nothing in it is markup."""
    return re.sub(r"([\\|*_`<>\[\]$~#&])", r"\\\1", " ".join(line.split())) or VALUE


def document(text: str) -> str:
    """The page with the lists as they should be."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + listed() + END + rest.partition(END)[2]


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(document(page.read_text(encoding="utf-8")), encoding="utf-8")
