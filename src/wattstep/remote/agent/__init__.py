"""Recording on boards where nothing may be installed: the one file that runs there, how it is made, and how its folder becomes a run."""
