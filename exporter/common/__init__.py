"""Code that the translators of all source formats use. No module here knows a format."""
