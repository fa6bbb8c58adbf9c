"""The operators of the device: whether each is supported, and which kernels compute it.

``registry.py`` says how an operator is declared; the other modules declare them by family.
"""
