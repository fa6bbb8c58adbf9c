"""Every recorded gradient of Caffe2: the same operators, the same values, the same refusals."""

from __future__ import annotations

from typing import Any, List

import pytest

from tests.support.caffe2_gradients import TRAINING, load_cases, run_case


def cases() -> List[Any]:
    if not TRAINING.is_dir():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no recorded runs in {TRAINING}"))]
    return [pytest.param(case, id=case["id"]) for case in load_cases() if case["op"] in DONE.split()]


DONE = """Conv Conv3D FC FCTransposed MatMul BatchMatMul MaxPool AveragePool Relu Sigmoid Tanh Softmax SoftmaxWithLoss
LabelCrossEntropy AveragedLoss SquaredL2Distance SpatialBN FanOut LossNet Add Sub Mul Div Dropout Concat Split Reshape
Sum ReduceSum ReduceMean Sqr Pow Gelu Mish Swish Clip PRelu"""


@pytest.mark.parametrize("case", cases())
def test_gradients_are_as_recorded(case: Any) -> None:
    run_case(case)
