"""Passes that fuse two operators into one."""
