"""Which operation of a step runs when, on which cores, with how many threads: plans, and what they would take."""
