"""The application: ``python -m runtime_arm`` and what a bundle runs."""
