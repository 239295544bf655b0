"""Every child is started with a copy of the environment, taken while no other thread changes it.

Python starts a child by vfork and lets its other threads run meanwhile. Without `env=`, the
child's execv reads the process's own `environ`, which setenv in another thread may just be moving:
OSError 14, "Bad address", or a wrong variable.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "wattstep"
STARTS = ("Popen", "run", "call", "check_call", "check_output")


def starts_without_environment(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name("subprocess"), attr=name)) if (
                name in STARTS and all(keyword.arg != "env" for keyword in node.keywords)
            ):
                yield node.lineno


def test_no_child_of_ours_without_an_environment_of_its_own() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        for line in starts_without_environment(ast.parse(path.read_text()))
    }
    assert not found


def test_a_start_without_an_environment_is_found() -> None:
    tree = ast.parse("subprocess.run(['a'])\nsubprocess.Popen('b', env=dict(os.environ))")
    assert list(starts_without_environment(tree)) == [1]
