"""Orders of operators that need little memory, reuse of names, and what memory a net needs."""
