"""Custom operators, by whose they are. One without a rule here is refused by its name."""
