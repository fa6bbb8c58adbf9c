"""Runs plans: executor, workers, Predictor, Workspace, profiling."""
