"""Functions that tests run in a process of their own."""

from __future__ import annotations

import json
import os
import sys
import time


def tell() -> int:
    with os.fdopen(int(sys.argv[1]), "w") as pipe:
        pipe.write(json.dumps({"stage": sys.argv[2]}) + "\n")
    return 0


def hang() -> int:
    with os.fdopen(int(sys.argv[1]), "w") as pipe:
        pipe.write(json.dumps({"stage": "compiling"}) + "\n")
        pipe.flush()
        time.sleep(600)
    return 0


def crash() -> int:
    print("LLVM ERROR: cannot select", file=sys.stderr, flush=True)
    os.abort()
