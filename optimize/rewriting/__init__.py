"""How passes run: the program that they rewrite, patterns, the driver with its checks, the report."""
