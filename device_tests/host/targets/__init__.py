"""Targets: the machines that a suite or a network can be sent to."""
