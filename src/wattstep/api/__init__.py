"""Functions of the Python interface: train, compare, explain, predict, plan, export, sweep and tune, each as the command of that name.

They are public as `wattstep.train`, ...; docs/python.md shows them. What they need is loaded when they
are called.
"""

from wattstep.api.planning import plan as plan
from wattstep.api.planning import plan_training as plan_training
from wattstep.api.planning import predict as predict
from wattstep.api.planning import study_grid as study_grid
from wattstep.api.planning import study_plans as study_plans
from wattstep.api.planning import workers_of as workers_of
from wattstep.api.runs import compare as compare
from wattstep.api.runs import compare_by as compare_by
from wattstep.api.runs import explain as explain
from wattstep.api.runs import export as export
from wattstep.api.training import SWEEP_STEPS as SWEEP_STEPS
from wattstep.api.training import open_execution_host as open_execution_host
from wattstep.api.training import sweep as sweep
from wattstep.api.training import train as train
from wattstep.api.training import tune as tune
