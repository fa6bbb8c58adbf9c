"""The driver of the passes: the program they rewrite, patterns, checks and the report."""
