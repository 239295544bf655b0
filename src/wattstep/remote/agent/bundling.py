"""Puts modules of wattstep together into one file for an old Python: what is used of them, without annotations."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.errors import RecordingError

ROOM: Final = "wattstep."
LATE: Final = "torch"  # is loaded by the script, or never
_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class _Statement:
    """Statement of a module, with the comment above it.

    Attributes:
        binds: Names that it gives to the module.
        uses: All names in it.
        text: Its lines.
        joined: Whether it follows the one before without an empty line.
    """

    binds: frozenset[str]
    uses: frozenset[str]
    text: str
    joined: bool


@dataclass(frozen=True, kw_only=True)
class _Module:
    """A module without its annotations.

    Attributes:
        doc: Its docstring.
        statements: In order, imports left out.
        imported: Names that others gave it: their module, and the name there ("": the module).
    """

    doc: str
    statements: Sequence[_Statement]
    imported: Mapping[str, tuple[str, str]]


def bundle(entry: str, prelude: str) -> str:
    """The text of one file.

    Args:
        entry: The module that the file stands for; all of it is taken.
        prelude: A module that comes first, whole; it may stand in for modules of the library.

    Raises:
        RecordingError: Two of the modules use one name for two things, or what they import cannot
            be put into one file.
    """
    first, modules = _read(prelude), {entry: _read(entry)}
    wanted = _wanted(modules, entry)
    imports = {_line(name, origin) for name, origin in first.imported.items()}
    given: dict[str, tuple[str, str]] = {}  # what each name is in the file
    lines: list[str] = []
    for at in _ordered(entry, modules, wanted):
        module, names = modules[at], wanted[at]
        others = {name: origin for name, origin in module.imported.items() if name in names}
        outer = {name: origin for name, origin in others.items() if not _is_ours(origin)}
        imports.update(_line(name, origin) for name, origin in outer.items())
        statements = [
            s for s in module.statements if s.binds & names or (at == entry and not s.binds)
        ]
        own = {name: (at, name) for statement in statements for name in statement.binds}
        for name, origin in {**outer, **own}.items():
            thing = (origin[0].partition(".")[0], "") if not origin[1] else origin
            if given.setdefault(name, thing) != thing:
                raise RecordingError(
                    f"{at} has another {name} than {given[name][0]}", id="bundled-name-clash"
                )
        lines += _spaced(statements)
    late = {line for line in imports if not line.startswith(("import ", "from "))}
    plain = sorted(imports - late, key=lambda line: (line.startswith("from"), line))
    parts = [f'"""{modules[entry].doc}"""\n\n', "\n".join(plain), *_spaced(first.statements)]
    return "".join([*parts, "\n\n", "\n".join(sorted(late)), "\n", *lines])


def _is_ours(origin: tuple[str, str]) -> bool:
    return origin[0].startswith(ROOM)


def _wanted(modules: dict[str, _Module], entry: str) -> dict[str, set[str]]:
    """Names that are needed of each module, those that they need in turn included; reads the modules."""
    wanted: dict[str, set[str]] = {}
    asked = [(entry, name) for s in modules[entry].statements for name in s.binds | s.uses]
    while asked:
        at, name = asked.pop()
        if at not in modules:
            modules[at] = _read(at)
        if name in wanted.setdefault(at, set()):
            continue
        wanted[at].add(name)
        origin = modules[at].imported.get(name, ("", ""))
        if _is_ours(origin):
            if origin[1] != name:
                raise RecordingError(
                    f"{at} imports {origin} in a way that one file cannot have", id="bundled-import"
                )
            asked.append(origin)
        binding = [s for s in modules[at].statements if name in s.binds]
        asked += [(at, used) for statement in binding for used in statement.uses]
    return wanted


def _ordered(
    entry: str, modules: Mapping[str, _Module], wanted: Mapping[str, set[str]]
) -> list[str]:
    """The modules, each after those that it needs."""
    order: list[str] = []

    def visit(at: str) -> None:
        for name, origin in modules[at].imported.items():
            if name in wanted[at] and _is_ours(origin) and origin[0] not in order:
                visit(origin[0])
        order.append(at)

    visit(entry)
    return order


def _spaced(statements: Sequence[_Statement]) -> list[str]:
    return [("" if s.joined and number else "\n\n") + s.text for number, s in enumerate(statements)]


def _line(bound: str, origin: tuple[str, str]) -> str:
    """Line that brings a name into the file."""
    module, attribute = origin
    if module.partition(".")[0] == LATE:
        path = f"{module}.{attribute}" if attribute else module
        return f'{bound} = Late("{path}")'
    if module == "time" and attribute:  # which the prelude may replace
        return f"{bound} = time.{attribute}"
    if not attribute:
        return f"import {module}" + ("" if module.split(".")[0] == bound else f" as {bound}")
    return f"from {module} import {attribute}" + ("" if attribute == bound else f" as {bound}")


# --- one module -----------------------------------------------------------------------------------


def _read(name: str) -> _Module:
    path = _ROOT.joinpath(*name.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = _without_annotations(path.read_text(encoding="utf-8"))
    tree = ast.parse(text)
    lines = text.split("\n")
    statements: list[_Statement] = []
    imported: dict[str, tuple[str, str]] = {}
    last = 0  # the line at which the statement before ended
    for node in tree.body:
        end = node.end_lineno or node.lineno
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imported.update(_imported(node))
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            decorators = getattr(node, "decorator_list", [])
            begin = min([node.lineno, *(each.lineno for each in decorators)])
            while begin - 1 > last and lines[begin - 2].startswith("#"):
                begin -= 1
            statements.append(
                _Statement(
                    binds=frozenset(_bound(node)),
                    uses=frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name)),
                    text="\n".join([*lines[begin - 1 : end], ""]),
                    joined=begin == last + 1,
                )
            )
        last = end
    return _Module(
        doc=ast.get_docstring(tree, clean=False) or "", statements=statements, imported=imported
    )


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, tuple[str, str]]]:
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, (node.module or "", alias.name)
        elif alias.asname:
            yield alias.asname, (alias.name, "")
        else:
            yield alias.name.partition(".")[0], (alias.name, "")


def _bound(node: ast.stmt) -> Iterator[str]:
    """Names that a statement gives to its module."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.If, ast.Try, ast.With)):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield from _bound(child)
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                yield name.id


def _without_annotations(text: str) -> str:
    """The module's text without its annotations, which an old Python could not read."""
    data = text.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        return starts[line - 1] + column

    def end_of(node: ast.expr) -> int:
        return at(node.end_lineno or 0, node.end_col_offset or 0)

    cuts: list[tuple[int, int]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg) and node.annotation is not None:
            begin = at(node.lineno, node.col_offset) + len(node.arg.encode())
            cuts.append((begin, end_of(node.annotation)))
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            begin = at(node.returns.lineno, node.returns.col_offset)
            arrow = data.rindex(b"->", 0, begin)
            cuts.append((data.rindex(b")", 0, arrow) + 1, end_of(node.returns)))
        elif isinstance(node, ast.AnnAssign):
            whole = at(node.lineno, node.col_offset)  # a declaration alone goes altogether
            begin = whole if node.value is None else end_of(node.target)
            cuts.append((begin, end_of(node.annotation)))
    for begin, end in sorted(cuts, reverse=True):
        data = data[:begin] + data[end:]
    return data.decode()
