"""What ``armnet serve`` does: a model behind HTTP, with a page for people and ``POST /predict`` for programs."""
