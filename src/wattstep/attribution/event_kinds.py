"""Kind of an event of a trace: by its category and name, or by that of the operation that launched it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.launching import Links
from wattstep.attribution.nesting import Bools, Family, Rows
from wattstep.formats.trace import NONE, Codes
from wattstep.schema.operation_kinds import kind_of

SCOPE: Final = "scope"
SCOPES: Final = frozenset({"step", "annotation", "module", "python"})
# torch's engine wraps each node of the backward pass so; older versions name the nodes alone.
ENGINE: Final = "autograd::engine::evaluate_function: "
_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(SCOPES, SCOPE),
    "runtime": "runtime call",
    "overhead": "profiler",
    "copy": "data movement",
    "set": "data movement",
}
# What says its kind by its first letters; torch.compile names what it generates by all that is
# fused into it, and a kernel that sends may have been asked for by any operation.
_BEGINNINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "compiled": ("triton_",),
    "communication": ("nccl", "rccl", "c10d::", "gloo:"),
}
SURE_KINDS: Final = frozenset(_BEGINNINGS)


def kind_in(category: str, name: str) -> str:
    """Kind of an event of this category and name."""
    if category not in ("operation", "kernel"):
        return _KINDS.get(category, category)
    for kind, beginnings in _BEGINNINGS.items():
        if name.startswith(beginnings):
            return kind
    return kind_of(shown(name))


def shown(name: str) -> str:
    """Name of an operation as runs have it."""
    return name.removeprefix(ENGINE).removeprefix("torch::autograd::")


@dataclass(frozen=True, eq=False)
class Labels:
    """Names of rows.

    Attributes:
        codes: Position among the texts, NONE for nothing, shape (n,).
        texts: By code; a text may stand there twice.
    """

    codes: Codes
    texts: tuple[str, ...]


def kinds_of(
    rows: Rows, names: tuple[str, ...], family: Family, links: Links, operation: Bools
) -> Labels:
    """Kind of each row.

    A kernel is of the kind of the operation that launched it, for names of kernels tell little;
    of its own name's where that is sure, or where the operation is unknown or of no kind.

    Args:
        rows: In order.
        names: Texts by code.
        family: The nesting of the rows.
        links: What launched what.
        operation: Rows that are operations on the CPU, shape (n,).
    """
    categories, which = np.unique(rows.category, return_inverse=True)
    pair = which * len(names) + rows.name
    used = np.flatnonzero(np.bincount(pair, minlength=len(categories) * len(names)))
    code_of = {"other": 0}
    table = np.zeros(len(categories) * len(names), np.int32)
    for each in used.tolist():
        category, name = divmod(each, len(names))
        kind = kind_in(names[categories[category]], names[name])
        table[each] = code_of.setdefault(kind, len(code_of))
    codes: Codes = table[pair]
    inherited = np.where(operation & (codes > 0), codes, np.int32(NONE))
    inherited = links.taken_over(family.inherited(inherited))
    sure: Bools = np.array([text in SURE_KINDS for text in code_of], bool)
    kernel: Bools = np.array([text == "kernel" for text in names], bool)
    launched = kernel[rows.category] & rows.on_gpu & (inherited != NONE) & ~sure[codes]
    codes[launched] = inherited[launched]
    return Labels(codes, tuple(code_of))
