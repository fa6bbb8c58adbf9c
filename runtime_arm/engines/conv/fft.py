"""FFT: convolutions with large kernels as products of spectra, on overlapping tiles.

The output is cut into tiles of m x n outputs. A tile is computed from the pixels under it, placed on a circle of p x q
places, p >= m + kh - 1, on which a correlation is a product of spectra (``fft_transforms`` has the algebra; for
convolution layers Mathieu, Henaff and LeCun, arXiv:1312.5851; in tiles Vasilache et al., arXiv:1412.7580, section 6).
With all C channels and M filters, a tile takes 3 (p q + 1) / 2 multiplies a channel and filter, instead of m n kh kw.

A block of tiles passes through two buffers, in turns. Every transform is a product with a constant matrix that
reads windows of its operand where they lie, and writes its result transposed, as the next step wants it. The matrix
leaves out the padding, so nothing is gathered and nothing is padded:

    rows       S[q, columns, C, H]            = F[:, pixels] @ X[C, H, pixels]^T        for each tile column
    columns    T[rows, p, q, columns, C]      = F[:, pixels] @ S[..., pixels]^T         for each tile row
    split      V[3, frequencies, tiles, C]      sums and differences of T
    multiply   P[3, frequencies, tiles, M]    = V @ U a plane and frequency, U made once; V * U where C / group is 1
    join       T[rows, p, q, columns, M]        sums and differences of P
    columns    Q[rows, m, q, columns, M]      = F^-1 @ T
    rows       Y[M, rows, m, columns, n]      = Q^T @ F^-1, straight into the output, clipped at its edge

Then comes the epilogue. The sums of a spectrum meet every pixel of a tile, so an infinite pixel turns all outputs of
its tile into NaN.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence

from runtime_arm.engines.conv.fft_tiles import FILTER_GROWTH, LARGEST_PERIOD, Tiling, best_tiling
from runtime_arm.engines.conv.operands import changes, convolution_in, tile_refusal
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import conv, conv_relu, onnx_conv
from runtime_arm.registry.kernel import Call, Run, Specs, Work
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    reason = tile_refusal(op, inputs)
    if reason is not None:
        return reason
    if changes(inputs):
        return "the weights must be constant"
    convolution = convolution_in(op, inputs)
    window = convolution.window
    if set(window.kernel) == {1}:
        return "the kernel must have more than one pixel"
    if min(convolution.batch, convolution.channels, convolution.filters, *window.image) == 0:
        return "there must be pixels, channels and filters"
    if best_tiling(convolution) is None:
        return (
            f"a kernel of {list(window.kernel)} pixels, dilated by {list(window.dilation)}, takes circles of more "
            f"than {LARGEST_PERIOD} places, or {FILTER_GROWTH} times the memory of the filters"
        )
    return None


def _tiling(op: OperatorDef, inputs: Specs) -> Tiling:
    tiling = best_tiling(convolution_in(op, inputs))
    assert tiling is not None
    return tiling


def work(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return _tiling(op, inputs).work()


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    y = outputs[0]
    return [TensorSpec((_tiling(op, inputs).buffer_size(y.dtype.itemsize),), y.dtype)] * 2


@conv.kernel("FFT", supports=supports, scratch=scratch, work=work, splits_work=True)
@conv_relu.kernel("FFT", supports=supports, scratch=scratch, work=work, splits_work=True)
@onnx_conv.kernel("FFT", supports=supports, scratch=scratch, work=work, splits_work=True)
def fft(call: Call) -> Run:
    from runtime_arm.engines.conv.fft_pipeline import Pipeline  # most nets never run it
    from runtime_arm.engines.conv.fft_transforms import transform_filters

    tiling = _tiling(call.op, call.in_specs)
    convolution = tiling.convolution
    filters = call.packed(
        f"fft {tiling.period}",
        lambda: transform_filters(tiling.period, convolution.window.dilation, convolution.group, call.inputs[1]),
    )
    middles: Dict[Sequence[int], List[Step]] = {}  # blocks of one size and of the same groups share their steps
    steps: List[Step] = []
    for block in call.mine(list(tiling.blocks(call.outputs[0].itemsize, call.workers))):
        pipeline = Pipeline(call, tiling, block)
        kind = (*pipeline.extent, *block.groups, *block.filters)
        if kind not in middles:
            middles[kind] = list(pipeline.multiply(filters))
        steps += [*pipeline.transform(), *middles[kind], *pipeline.transform_back()]
    return in_turn(steps)
