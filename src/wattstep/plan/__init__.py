"""How to train on a device that is not here: all ways searched, the cheapest that keeps a budget, and why the others lose."""

from __future__ import annotations

from wattstep.plan.budget import Budget, Limit, parse_period
from wattstep.plan.costs import Estimate, Estimator, Session
from wattstep.plan.search import LEAST, Plan, search
from wattstep.plan.space import ALLOWED, Configuration, Question, parse_allowed

__all__ = [
    "ALLOWED", "LEAST", "Budget", "Configuration", "Estimate", "Estimator", "Limit", "Plan", "Question",
    "Session", "parse_allowed", "parse_period", "search",
]  # fmt: skip
