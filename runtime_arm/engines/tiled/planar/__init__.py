"""Convolutions with the channels first inside: for deep layers of few pixels, where BLAS multiplies small matrices.

The blobs are still in ``Tiles``, with the channels last: each algorithm transposes its input and its output.
"""
