"""Teaches a network new classes: its features stay, and a new head learns to distinguish the classes.

``cut`` finds the features and joins a new head to them, ``features`` computes them for pictures and keeps them,
``head`` trains the head, ``teaching`` does all three.
"""
