"""Batch sizes side by side, asked in SQL: python examples/sweep_front.py [FOLDER]."""

import sys

import wattstep

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/swept"
wattstep.sweep(
    "lenet", [1, 8], seconds=1, threads=[1], cooldown="none", power_model="vcpu", out=folder
)
table = wattstep.query(
    """
    SELECT runs.batch_size AS batch, throughput.value AS samples_per_s, energy.value AS joules
    FROM runs
    JOIN metrics AS throughput ON throughput.run = runs.run AND throughput.metric = 'throughput'
    JOIN metrics AS energy ON energy.run = runs.run AND energy.metric = 'energy_per_sample'
    ORDER BY batch
    """,
    [folder],
)
print(table.to_pandas().to_string(index=False))
