"""The twelve observations of the TX2 paper, each a file, tested on recorded runs."""
