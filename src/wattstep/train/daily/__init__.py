"""Training by the day: a model from a server meets a few new samples each day (the TX2 paper's Figure 10)."""
