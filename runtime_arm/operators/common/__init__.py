"""Formulas and helpers that several operator families share. No operator is declared here."""
