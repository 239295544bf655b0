"""The figures of the TX2 paper (3 to 10), drawn from the runs of a report; each is a row of `figures.py`."""
