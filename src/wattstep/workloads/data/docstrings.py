"""Documented functions of Python's standard library: real text that lies on every machine."""

from __future__ import annotations

import ast
import platform
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wattstep.errors import InvalidValueError

Function = ast.FunctionDef | ast.AsyncFunctionDef

NAME = f"the standard library of Python {platform.python_version()}"


class Documented(NamedTuple):
    """A function and what is said of it.

    Attributes:
        name: Of the function.
        document: Its documentation, without the indentation.
        code: The source text of its signature and body, without the documentation.
    """

    name: str
    document: str
    code: str


def read_functions(count: int) -> list[Documented]:
    """The first documented functions, by the names of their modules.

    Raises:
        InvalidValueError: This Python comes without source text.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    functions: list[Documented] = []
    for path in sorted(folder.glob("*.py")):
        functions.extend(_read_module(path))
        if len(functions) >= count:
            return functions[:count]
    raise InvalidValueError(
        f"{folder}: this Python comes with {len(functions)} documented functions, too few to "
        "stand in for a data set; give a folder with the official one (--data)"
    )


def _read_module(path: Path) -> Iterator[Documented]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            document = ast.get_docstring(node)
            if document and len(node.body) > 1:
                yield Documented(node.name, document, _code(node, lines))


def _code(node: Function, lines: list[str]) -> str:
    signature = lines[node.lineno - 1 : node.body[0].lineno - 1]
    return "\n".join([*signature, *lines[node.body[0].end_lineno : node.end_lineno]])
