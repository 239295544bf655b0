"""The version of wattstep, for whatever is written: rooms that must not see the whole package read it here."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
