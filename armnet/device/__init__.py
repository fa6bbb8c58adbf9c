"""What ``armnet device`` does, an action at a time."""
