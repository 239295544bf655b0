"""Statistics that know nothing of training: intervals, tests, discoveries, change points, forecasts."""
