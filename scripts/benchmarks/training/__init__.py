"""Steps of training by armnet and by PyTorch, each in a process of its own: the part ``training``."""
