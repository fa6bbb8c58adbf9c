"""Convolutions and the operators around them, on blobs in the layouts of ``registry/layouts.py``.

Each word has one meaning in this package:

    tile       m x m neighbouring pixels of an image
    phase      the place (py, px) of a pixel in its tile
    plane      the pixels of one phase, one for each tile: an array (positions, channels)
    position   the place of a tile on the one axis that all tiles of a plane share, row behind row, image behind image
    row        of tiles, unless it says of what; the next row lies ``pitch`` positions on
    guard      the positions before the first tile and behind the last one; the body is what lies between them
    strip      the positions of a rectangle of tiles, in all planes: what a kernel works on before it goes on
    block      as in other packages; here a block is a strip, and ``block_nbytes`` says what its intermediates may take
    columns    the matrix of im2col, with a row for each position of a strip (or its transpose)
    lanes      positions of one channel side by side, as many as BLAS multiplies fast (``planar/products.py``)
    slice      some channels of a wider blob in tiles: its positions lie further apart than its channels need
    results    what a convolution makes; they are the step's output, or a max pool makes the output of them

An operator's *options* (``*_options.py``) say which layouts it can read and write, with which kernel, and at what cost.
The other modules are kernels and their parts. The kernel of a convolution is an ``Algorithm``.
"""
