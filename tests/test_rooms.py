"""Rooms hand each other types: documents that are open all the same stand here, each with its reason.

A room is a package directly below `wattstep`. What counts is a public function, method or field
whose annotation has a mapping of texts to anything, also within another or by an alias of its
module, and that another room uses: it imports the function, or names an attribute that no other
class has, or imports something of the class's module beside it. `to_dict` and the like are the
edge to JSON, and left out.

Import-linter sees no module that is named in a string and loaded late; this looks at those.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SOURCE: Final = Path(__file__).parents[1] / "src" / "wattstep"
OPEN: Final = re.compile(r"\b(?:Mapping|MutableMapping|[dD]ict)\[str, (?:Any|object)\]")
EDGE: Final = ("to_dict", "from_dict", "document", "from_document")
OPEN_DOCUMENTS: Final[dict[str, str]] = {
    "api.training:sweep": "the document of `sweep.json` for scripts, as the command prints it",
    "attribution.tables.operation_table:OperationTable.rows": (
        "what `Run.operations()` gives to scripts: labels and figures by name"
    ),
    "boards.table:Board.emulation": (
        "a table of a board's TOML, checked where it is read (`emulation/numbers.py`)"
    ),
    "boards.table:Board.gpu": "a table of a board's TOML, printed as it is",
    "boards.table:Board.memory_controller": "a table of a board's TOML, printed as it is",
    "engines.exported.folder:ExportedOptimizer.options": (
        "hyperparameters of any optimizer, by their usual names"
    ),
    "engines.torch.precision:Scaling.load_state_dict": (
        "torch's own document of a scaler, in a checkpoint"
    ),
    "engines.torch.precision:Scaling.state_dict": (
        "torch's own document of a scaler, in a checkpoint"
    ),
    "errors:error_of": (
        "what another process ended with: an id and a class by its name are taken, the rest passed over"
    ),
    "formats.trace:no_events": "columns of a table, by name",
    "importing.operations:TraceTables.operations": (
        "columns of a table, by name, on their way to Parquet"
    ),
    "importing.operations:TraceTables.steps": (
        "columns of a table, by name, on their way to Parquet"
    ),
    "insight.observe.evidence:DailyCourse.settings": (
        "settings compared by name, whatever they are"
    ),
    "record.sampling.plan:Plan.entries": (
        "JSON of the sampler's child, which runs without wattstep on Python 3.6"
    ),
    "record.sampling.plan:PlannedSource.settings": (
        "arguments of a push source, which may be another package's"
    ),
    "report.tables:Table.more": "cells of a page's table as JSON, packed for its script",
    "schema.channel:SensorRead.push_settings": (
        "arguments of a push source, which may be another package's"
    ),
    "schema.figures:Metrics.rows": "rows for any table library",
    "schema.run_documents:CalibrationFile.calibrations": (
        "a document of `recorded.calibration.Calibration`, a room above"
    ),
    "schema.condition_documents:GovernorLook.slower": "a figure as JSON, read by Figure.from_dict",
    "schema.condition_documents:GovernorLook.saving": "a figure as JSON, read by Figure.from_dict",
    "schema.run_documents:ClockMapFacts.facts": ("what a method of alignment noted, shown by name"),
    "schema.sweep_report:SweepReport.settings": (
        "settings shared by a sweep as JSON, shown and compared by name"
    ),
    "schema.workload:OptimizerSettings.options": (
        "hyperparameters of any optimizer, by their usual names"
    ),
    "schema.workload:SampleSource.options": (
        "arguments of a reader of data, which may be another package's"
    ),
    "schema.workload:Specification.architecture": (
        "arguments of a model, which may be another package's"
    ),
    "store.tables:write_table": "columns of a table, by name, on their way to Parquet",
    "store.writing:write_run": "columns of a table, by name, on their way to Parquet",
    "train.child.limits:Cage.guard": (
        "JSON of the guard process, a private line between two files"
    ),
    "train.child.local_machine:unlike": "two documents of any kind that are compared by key",
    "train.description:describe_training": "fields of RunInfo by name, each typed there",
}

# Modules whose strings may name a room above their own, and why.
NAMES_ABOVE: Final[dict[str, str]] = {
    "": "the package itself is above all rooms: public names, loaded on first use, and a run's views",
    "schema.metrics": "a metric's entry names the function that computes it, as another package's does",
}

Declared = tuple[str, str, str, bool]  # module, name within it, last name, is it a function


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room(module: str) -> str:
    return module.partition(".")[0]


TREES: Final = {
    _module(path): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(SOURCE.rglob("*.py"))
}


def _aliases(tree: ast.Module) -> list[str]:
    """Names of the module for an open type."""
    return [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)
        if OPEN.search(ast.unparse(node.value))
        for target in node.targets
        if isinstance(target, ast.Name)
    ]


def _annotations(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = node.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    parts = [*(each.annotation for each in every), node.returns]
    return [each for each in parts if each is not None]


def _public(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        else:
            continue
        if not name.startswith("_") and name not in EDGE:
            yield name, node


def _declared() -> Iterator[Declared]:
    for module, tree in TREES.items():
        names = _aliases(tree)
        alias = re.compile(rf"\b(?:{'|'.join(names)})\b" if names else r"(?!)")
        for name, node in _public(tree.body):
            inner = list(_public(node.body)) if isinstance(node, ast.ClassDef) else [("", node)]
            for member, part in inner:
                if isinstance(part, ast.ClassDef):
                    continue
                words = [ast.unparse(each) for each in _annotations(part)]
                if any(OPEN.search(text) or alias.search(text) for text in words):
                    whole = f"{name}.{member}" if member else name
                    yield module, whole, member or name, not member


def _attributes(tree: ast.Module) -> set[str]:
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return named | {str(node.arg) for node in ast.walk(tree) if isinstance(node, ast.keyword)}


def _imports(tree: ast.Module) -> set[tuple[str, str]]:
    """Pairs of a module of ours and a name that is taken from it."""
    return {
        (node.module.removeprefix("wattstep").lstrip("."), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("wattstep")
        for alias in node.names
    }


def crossings() -> set[str]:
    """Open documents that another room uses, as "module:name"."""
    uses = {module: (_attributes(tree), _imports(tree)) for module, tree in TREES.items()}
    declared = list(_declared())
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for name, _ in _public(node.body):
                    owners[name].add(node.name)
    taken = {(_room(user), *pair) for user, (_, imports) in uses.items() for pair in imports}
    named = {(_room(user), name) for user, (attributes, _) in uses.items() for name in attributes}
    crossed = set()
    for module, whole, name, function in declared:
        for room in {_room(user) for user in uses} - {_room(module)}:
            if function:
                used = (room, module, name) in taken
            else:
                knows = any((one, where) == (room, module) for one, where, _ in taken)
                used = (room, name) in named and (knows or len(owners[name]) == 1)
            if used:
                crossed.add(f"{module}:{whole}")
    return crossed


def test_no_open_document_crosses_rooms_but_those_that_are_named_with_a_reason() -> None:
    assert crossings() == set(OPEN_DOCUMENTS)


def _rows() -> dict[str, int]:
    """Row of each room, 0 at the top, as the contract of layers has them."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    return {room.strip(): row for row, rooms in enumerate(layers) for room in rooms.split("|")}


def _texts(tree: ast.Module) -> Iterator[str]:
    """Strings of a module but for docstrings."""
    loose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in loose:
            yield node.value


def names_above(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Rooms that a module's strings name, though it may not import them."""
    rows = _rows()
    pattern = re.compile(rf"\bwattstep\.({'|'.join(rows)})\b")
    named: defaultdict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        own = _room(module)
        for room in {room for text in _texts(tree) for room in pattern.findall(text)} - {own}:
            if rows[room] <= rows.get(own, len(rows)):
                named[module].add(room)
    return dict(named)


def test_no_string_names_a_room_above_but_where_a_reason_stands() -> None:
    assert names_above(TREES).keys() == NAMES_ABOVE.keys()


def test_a_string_that_names_a_room_above_is_found_and_one_below_or_a_docstring_is_not() -> None:
    trees = {
        "run.above": ast.parse('load("wattstep.report.html:page")'),
        "run.beside": ast.parse('f"from wattstep.run import {name}"'),
        "run.below": ast.parse('load("wattstep.schema.figure")'),
        "run.docstring": ast.parse('"""See wattstep.report."""'),
        "stats.same_row": ast.parse('load("wattstep.store.files")'),
        "schema.group": ast.parse('Registry("wattstep.metrics", {})'),
    }
    assert names_above(trees) == {"run.above": {"report"}, "stats.same_row": {"store"}}
