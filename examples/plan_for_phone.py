"""A plan for a phone: python examples/plan_for_phone.py [DEVICE]; nothing is trained, and no phone is needed."""

import sys

import wattstep

device = sys.argv[1] if len(sys.argv) > 1 else "snapdragon-855"
plan = wattstep.plan(
    "squeezenet", device=device, samples=64, every="day", budget="battery 5 %, 30 min, 45 °C"
)
if plan.chosen is None:
    print("Nothing keeps the budget. What would change that:", *plan.remedies, sep="\n- ")
else:
    print(plan.chosen.configuration.text)
    for name in ("time", "energy", "battery", "temperature", "memory"):
        print(f"{name}: {plan.chosen.figures[name]}")
    print("Why others lose:", *(f"{one.best}: {one.why}" for one in plan.losing), sep="\n- ")
print("What could go wrong:", *plan.risks, sep="\n- ")
