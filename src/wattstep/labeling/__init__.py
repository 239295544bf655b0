"""Labels for data as they arrive: heuristics from a small labeled set, combined, with classes that nobody has seen.

`AutoLabeler` needs scikit-learn (extra `labeling`) and is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wattstep.labeling.auto_labeler import AutoLabeler as AutoLabeler
    from wattstep.labeling.outcome import Labels as Labels
    from wattstep.labeling.processors import Processors as Processors

_PUBLIC = {
    "AutoLabeler": "wattstep.labeling.auto_labeler",
    "Labels": "wattstep.labeling.outcome",
    "Processors": "wattstep.labeling.processors",
}


def __getattr__(name: str) -> Any:
    from wattstep.schema.extras import require

    if name not in _PUBLIC:
        raise AttributeError(f"module 'wattstep.labeling' has no attribute {name!r}")
    return getattr(require(_PUBLIC[name]), name)
