"""Fails a build where a change made a step slower: python examples/compare_in_ci.py BEFORE AFTER [PERCENT].

BEFORE is a folder of runs that is kept with the project, AFTER one that the build has just made.
The command of the same purpose is `wattstep compare BEFORE AFTER --fail-if step_time>5%`.
"""

import sys

import wattstep

before, after = sys.argv[1:3]
most = float(sys.argv[3]) if len(sys.argv) > 3 else 5.0
ratio = wattstep.compare(before, after).metrics["step_time"].ratio
print(f"step time, after to before: {ratio}")
# Only a difference that the interval bears out ends a build: noise must not.
sys.exit(1 if ratio.low is not None and ratio.low > 1 + most / 100 else 0)
