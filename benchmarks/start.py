"""How soon the command line answers: `wattstep --help`, beside an empty Python and beside `import torch`.

python benchmarks/start.py [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import wattstep": [sys.executable, "-c", "import wattstep"],
    "wattstep --help": [sys.executable, "-m", "wattstep", "--help"],
    "import torch": [sys.executable, "-c", "import torch"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.rounds):
        for name, command in COMMANDS.items():
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(values) for name, values in times.items()}
    if options.json:
        print(json.dumps(medians, indent=1))
        return
    for name, value in medians.items():
        print(f"{name:18} {value:7.3f} s (largest {max(times[name]):.3f} s)")


if __name__ == "__main__":
    main()
