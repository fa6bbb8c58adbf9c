"""TOEPLITZ: depthwise convolutions and their neighbours, channel by channel.

``kernel.py`` says how they run, ``toeplitz.py`` how a depthwise convolution is a product of matrices.
"""
