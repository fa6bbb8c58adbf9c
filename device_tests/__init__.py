"""Tests that the runtime gives the right answers, on the host and on emulated or real ARM machines."""
