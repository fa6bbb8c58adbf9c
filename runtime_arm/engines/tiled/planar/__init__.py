"""Ways to convolve with the channels first inside: for deep layers of few pixels, where BLAS multiplies small matrices.

The blobs lie in ``Tiles``, with the channels last, all the same: each way transposes what it reads and what it writes.
"""
