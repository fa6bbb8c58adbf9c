"""Makes a plan of a net: shapes, layouts, merges, memory, and a verifier."""
