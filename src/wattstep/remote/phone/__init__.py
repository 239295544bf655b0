"""An Android phone as an execution host: a command runs there while it is sampled."""
