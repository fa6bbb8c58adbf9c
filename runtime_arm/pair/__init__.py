"""A network on disk and in memory: the pair, its metadata, its archive and its tuning."""

from runtime_arm.pair.pair import Pair

__all__ = ["Pair"]
