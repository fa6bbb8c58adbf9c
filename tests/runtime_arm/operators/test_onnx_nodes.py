"""Every single-node case of ONNX's own backend test whose operator and dtypes the runtime has."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, specs_of
from device_tests.suite.tolerance import assert_close
from runtime_arm.registry.schema import DataDependent, lookup
from tests.support.exact import assert_same
from tests.support.onnx_nodes import NodeCase, node_cases

ELEMENTWISE = """
    Acos Acosh Add Asin Asinh Atan Atanh Ceil Celu Cos Cosh Div Dropout Elu Erf Exp Floor Gelu HardSigmoid HardSwish
    LeakyRelu Log Max Mean Min Mish Mod Mul Neg PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
    Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh ThresholdedRelu
    Adagrad Adam DequantizeLinear DynamicQuantizeLinear Momentum
"""
SUMS = """
    Attention AveragePool Conv ConvTranspose DeformConv Det Einsum GRU Gemm LSTM LogSoftmax LpPool MatMul MaxPool
    MaxUnpool RNN ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare CumProd CumSum Resize RoiAlign RotaryEmbedding Softmax
"""
SAMPLED = "AffineGrid DFT GridSample MelWeightMatrix STFT"
NORMALISED = """
    BatchNormalization GroupNormalization LayerNormalization LpNormalization MeanVarianceNormalization
    NegativeLogLikelihoodLoss RMSNormalization SoftmaxCrossEntropyLoss
"""
# The number of terms of sums that are rounded. Results of all other operators are exact.
TERMS: Dict[str, int] = {
    **dict.fromkeys(ELEMENTWISE.split(), 1),
    **dict.fromkeys(SUMS.split(), 64),
    **dict.fromkeys(SAMPLED.split(), 256),
    **dict.fromkeys(NORMALISED.split(), 1024),
}
# Every case of these must run in a fast kernel.
FAST = "CenterCropPad Clip Col2Im DepthToSpace Expand Pad Resize Slice SpaceToDepth Split Tile Where"

LEFT_OUT = {
    "test_bernoulli": "random",
    "test_bernoulli_double": "random",
    "test_bernoulli_seed": "random",
    "test_dft_opset19": "older opset: the axis is an attribute",
    "test_dft_inverse_opset19": "older opset: the axis is an attribute",
    "test_dft_rfft_opset19": "older opset: the axis is an attribute",
    "test_dft_irfft_opset19": "older opset: the axis is an attribute",
    "test_averagepool_2d_ceil_last_window_starts_on_pad": "expected values have four decimals, not all of them right",
    "test_roialign_aligned_false": "expected values have four decimals, not all of them right",
    "test_roialign_aligned_true": "expected values have four decimals, not all of them right",
}

CASES = [param for param in node_cases() if param.values[0].name not in LEFT_OUT]


def needed_constants(case: NodeCase) -> Optional[Sequence[int]]:
    """The inputs that shapes depend on: none, all but the first, or all; None if shapes are known only after
    running.
    """
    count = len(case.inputs)
    for constants in ((), range(1, count), range(count)):
        try:
            lookup(case.op).infer(case.op, specs_of(case.inputs, constants))
            return constants
        except DataDependent:
            pass
    return None


@pytest.mark.parametrize("case", CASES)
def test_computes_what_onnx_expects(case: NodeCase) -> None:
    needed = needed_constants(case)
    if needed is None:
        results = lookup(case.op).evaluate(case.op, case.inputs)
    else:
        results = run_kernel(case.op, case.inputs, constants=needed)
    named: List[Any] = [y for name, y in zip(case.op.output, results) if name]
    assert len(named) == len(case.outputs)
    for actual, expected in zip(named, case.outputs):
        stated = actual.round(4) if case.name == "test_gridsample_bicubic" else actual  # ONNX states four decimals
        if case.op.type in TERMS:
            assert_close(stated, expected, terms=TERMS[case.op.type], what=case.name)
        else:
            assert_same(stated, expected)
    if needed is not None:
        check_engines(case, needed)


def check_engines(case: NodeCase, needed: Sequence[int]) -> None:
    """Every engine agrees with the reference kernel, whether the other inputs are computed or weights."""
    terms, weights = TERMS.get(case.op.type, 1), range(1, len(case.inputs))
    engines = assert_engines_match_reference(case.op, case.inputs, terms=terms, constants=needed)
    if len(needed) < len(weights):
        engines += assert_engines_match_reference(case.op, case.inputs, terms=terms, constants=weights)
    assert engines or case.op.type not in FAST.split()
