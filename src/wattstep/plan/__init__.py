"""How to train on a device that is not here: all ways searched, the cheapest that keeps a budget, and why the others lose."""

from __future__ import annotations

from wattstep.plan.budget import Budget, Limit, parse_period
from wattstep.plan.costs import Estimate, Estimator, Session
from wattstep.plan.grid import Cell, Study, StudyGrid, Variant, study
from wattstep.plan.search import LEAST, Plan, search
from wattstep.plan.space import ALLOWED, Configuration, Question, parse_allowed

__all__ = [
    "ALLOWED", "LEAST", "Budget", "Cell", "Configuration", "Estimate", "Estimator", "Limit", "Plan", "Question",
    "Session", "Study", "StudyGrid", "Variant", "parse_allowed", "parse_period", "search", "study",
]  # fmt: skip
