"""Tables of operations, layers and phases of a run, from its recorded steps, trace and samples."""
