"""The actions of ``armnet device``."""
