"""A governor of energy: caps clocks during training where that saves energy and slows it within bounds."""
