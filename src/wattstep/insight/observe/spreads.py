"""Assumed spread between processes of one configuration where there is only one.

Standard deviations between identical runs on shared virtual cores (docs/observations.md says which
runs, and what they gave): twice and more of what runs that nothing disturbed gave there. Of one
process that other work disturbed no spread is assumed, for none is too wide: it decides nothing. On
a quiet board processes are more alike; two runs or more of each configuration show how much, and
then nothing is assumed.
"""

from __future__ import annotations

from typing import Final

TIMES: Final = 0.45  # of the logarithm of a time, a rate, an energy or a ratio of energies
LOADS: Final = 0.25  # of the utilization of all cores, by whatever runs on them
OWN_LOADS: Final = 0.12  # of what the training alone uses: a GPU
KINDS: Final = 0.65  # of the difference of two kinds of cores: the scheduler places threads
COURSES: Final = 0.15  # of a correlation
ACCURACY: Final = 0.10  # of the accuracy after some days: the last day is one draw
