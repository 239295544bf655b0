"""What a canary costs a training process, and how alike two of them are.

    python benchmarks/canary.py [--repetitions 20]

Time, processor time and resident memory that is left behind, of the first one in a process that has
loaded torch; then how far the medians of one after the other lie apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import pairwise

import torch  # noqa: F401 - a training has loaded it, and with it what the canary needs

from wattstep.record.tracing.windows import size_of_process
from wattstep.train.environment.canary import work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=20)
    repetitions = parser.parse_args().repetitions
    before, begin, used = size_of_process("self", "VmRSS"), time.perf_counter(), time.process_time()
    found = [work()]
    seconds, cpu = time.perf_counter() - begin, time.process_time() - used
    print(f"the first: {seconds:.3f} s, processor time {cpu:.3f} s", end=", ")
    print(f"leaves {(size_of_process('self', 'VmRSS') - before) / 1e6:.2f} MB resident")
    found += [work() for _ in range(repetitions - 1)]
    for part in ("compute_s", "memory_s"):
        medians = [statistics.median(one[part]) for one in found]
        apart = [abs(b / a - 1) for a, b in pairwise(medians)]
        print(
            f"{part}: {len(found[0][part])} passes of {1000 * medians[0]:.2f} ms; one after the other "
            f"apart by {statistics.median(apart):.1%} (median), {max(apart):.1%} (most)"
        )


if __name__ == "__main__":
    main()
