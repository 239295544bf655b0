"""Settings of all tests: short by default, thorough with --hypothesis-profile=long."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("short", deadline=None)
settings.register_profile("long", deadline=None, max_examples=5000)
settings.load_profile("short")
