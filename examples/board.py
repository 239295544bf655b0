"""A network of the suite on a board: python examples/board.py [ssh://me@jetson] [FOLDER].

Without a board it trains here, read through the sensors of an emulated Jetson TX2.
"""

import sys

import wattstep

target = sys.argv[1] if len(sys.argv) > 1 else "emulate:jetson-tx2"
folder = sys.argv[2] if len(sys.argv) > 2 else "runs/board"
run = wattstep.train("lenet", batch_size=4, seconds=2, target=target, out=folder)
print(run.summary())
