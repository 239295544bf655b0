"""Files of a run as arrays: tables, steps, channels as curves, and the resolution of samples."""
