"""Packs a pair, the runtime and a sample into one file that runs on the device."""
