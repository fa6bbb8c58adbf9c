"""armnet's own operators, each of which replaces several others."""
