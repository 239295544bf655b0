"""Layout of a recording of the agent, as it is written on a board and read here; Python 3.6 and later."""

from __future__ import annotations

AGENT = "agent.json"
FORMAT = 2  # of that, and of the journals beside it; 2: plain steps in one row
WINDOWS = "windows.jsonl"
TRACES = "traces"
LAYERS = "layers"  # the method of windows that are timed by layer
CLOCK = "wattstep.clock#"  # begins the name of an annotation that carries the monotonic time in ns

LOOK_FORMAT = "wattstep look 1"
MOST_FILES = 20_000  # of a look: more is no board's
MOST_FILE_BYTES = 64 << 10  # of each
