"""What the device can do: for each operator, whether it is supported and which kernels compute it.

``registry.py`` says how an operator is declared; the other modules declare them by family.
"""
