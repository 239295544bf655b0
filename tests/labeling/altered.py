"""State files that are whole archives, with one thing in them altered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
_SCALARS = (None, True, -1, 0, 1, 3, 1e300, 2**40, 2**70, float("nan"), "x", "forest", [], {})
_CHANGES: tuple[Callable[[Array], Array], ...] = (
    lambda a: np.full_like(a, np.nan) if a.dtype.kind == "f" else np.full_like(a, 1),
    lambda a: a.ravel()[: max(1, a.size // 2)],
    lambda a: a[:-1],
    lambda a: np.concatenate([a, a[:1]]),
    lambda a: np.ascontiguousarray(a.T) if a.ndim > 1 else a[:, None],
    lambda a: np.zeros_like(a),
    lambda a: -a if a.dtype.kind in "fi" else a[::-1],
    lambda a: a.astype("f4") if a.dtype.kind != "f" else a.astype("i8"),
    lambda a: a.astype("U8"),
    lambda a: _one(a, 1e300 if a.dtype.kind == "f" else 2**40),
    lambda a: _one(a, np.nan if a.dtype.kind == "f" else -7),
    lambda a: _one(a, 0.3 if a.dtype.kind == "f" else 5),
    lambda a: a[::-1],
    lambda a: a[:0],
    lambda a: np.array(a.ravel()[0]),
)


def _one(array: Array, value: float) -> Array:
    changed = array.copy()
    if array.dtype.kind in "fi":
        changed.flat[len(changed.flat) // 2] = value
    return changed


def altered(arrays: Mapping[str, Array], random: np.random.Generator) -> tuple[Arrays, str]:
    """A state with one array or one leaf of its tree altered, and what was."""
    found = {name: value.copy() for name, value in arrays.items()}
    names = [name for name, value in found.items() if value.size and name != "tree"]
    name = names[random.integers(len(names))]
    how = int(random.integers(len(_CHANGES) + 6))
    if how < len(_CHANGES):
        found[name] = _CHANGES[how](found[name])
        return found, f"{name}, change {how}"
    if how == len(_CHANGES):
        del found[name]
        return found, f"{name} dropped"
    tree = json.loads(found["tree"].tobytes())
    leaves = list(_leaves(tree))
    holder, key = leaves[random.integers(len(leaves))]
    before, value = holder[key], _SCALARS[random.integers(len(_SCALARS))]
    if random.integers(4):
        holder[key] = value
    else:
        del holder[key]
        value = "nothing"
    found["tree"] = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
    return found, f"{key}: {before!r} is now {value!r}"


def _leaves(tree: Any) -> Any:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(items):
        if isinstance(value, (dict, list)):
            yield from _leaves(value)
        else:
            yield tree, key
