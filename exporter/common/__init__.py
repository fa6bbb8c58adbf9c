"""What the translators of all source formats share. No module here knows a format."""
