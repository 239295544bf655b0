"""What a step of the agent for old boards costs the script: CPU time of empty steps, under each Python given.

python benchmarks/agent_marks.py [--python PATH ...] [--steps 20000] [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from wattstep.remote.agent.looking import parse_look
from wattstep.remote.agent.making import bare_agent, make_agent

SCRIPT = """
import sys, time, wattstep_agent
steps = int(sys.argv[1])
recorder = wattstep_agent.Recorder(sys.argv[2], trace="none")
with recorder:
    for _ in range(500):
        with recorder.step():
            pass
    begin = time.process_time()
    for _ in range(steps):
        with recorder.step():
            pass
    step = time.process_time() - begin
    begin = time.process_time()
    for _ in range(steps):
        with recorder.step():
            recorder.phase("forward")
    print(1e6 * step / steps, 1e6 * (time.process_time() - begin - step) / steps)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="+", default=[sys.executable])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    look = subprocess.run(
        [sys.executable, "-", "look"],
        input=bare_agent().encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, list[tuple[float, float]]] = {each: [] for each in options.python}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "wattstep_agent.py").write_text(make_agent(parse_look(look.stdout)))
        Path(folder, "script.py").write_text(SCRIPT)
        for number in range(options.rounds):
            for each in options.python:  # in turns
                out = f"out-{number}-{options.python.index(each)}"
                command = [each, "script.py", str(options.steps), out]
                done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True)
                step, phase = map(float, done.stdout.split())
                found[each].append((step, phase))
    medians = {
        each: {
            "step_us": statistics.median(step for step, _ in rows),
            "phase_us": statistics.median(phase for _, phase in rows),
        }
        for each, rows in found.items()
    }
    if options.json:
        json.dump({"marks": medians}, sys.stdout)
        return
    for each, row in medians.items():
        version = subprocess.run([each, "--version"], stdout=subprocess.PIPE, check=True)
        print(
            f"{version.stdout.decode().strip()}: a step's two marks {row['step_us']:.1f} µs, "
            f"a phase {row['phase_us']:.1f} µs"
        )


if __name__ == "__main__":
    main()
