"""Solvers: operators that count iterations, set the learning rate, and update parameters and their state in place."""
