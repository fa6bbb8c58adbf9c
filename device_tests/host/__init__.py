"""Drives the tests from a workstation: targets, networks, golden vectors, instruction counts."""
