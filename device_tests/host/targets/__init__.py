"""Targets: the machines that the suite or a network can be sent to."""
