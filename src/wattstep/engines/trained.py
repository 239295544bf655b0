"""Which workload trains on which engine as torch does, as it was last tried."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

UNKNOWN: Final = "not known"  # begins the reason where trying it came to no end
PLACE: Final = Path(__file__).with_name("trained.toml")


def read_trained() -> Mapping[str, Mapping[str, str]]:
    """By engine and workload, why it does not train it; "" where it does.

    Written by `benchmarks/engines_trained.py`.
    """
    if not PLACE.exists():
        return {}
    known: Mapping[str, Mapping[str, str]] = tomllib.loads(PLACE.read_text(encoding="utf-8"))
    return known
