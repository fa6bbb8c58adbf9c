"""Fast kernels by engine key; each module adds its own to the operators that it serves.

Words that all these packages share:

    block      a part of the work whose inputs and outputs stay in a cache; ``*_NBYTES`` say how small it is
    columns    the matrix of im2col: the pixels of X under the kernel, for every output pixel
    panel      columns of a constant matrix, stored so that BLAS can multiply with them as they are (``conv/gemm.py``)
    tap        one place of a kernel
    pass       one NumPy call over all of a block
    frequency  one number of a transformed tile: transformed tiles are multiplied frequency by frequency

``tiled/__init__.py`` defines the words for blobs in tiles.
"""
