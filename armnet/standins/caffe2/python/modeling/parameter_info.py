"""``caffe2.python.modeling.parameter_info``: what a model knows of a parameter."""

from __future__ import annotations

from typing import Any, Optional


class ParameterTags:
    BIAS = "BIAS"
    WEIGHT = "WEIGHT"
    COMPUTED_PARAM = "COMPUTED_PARAM"


class ParameterInfo:
    """A parameter's blob, shape, gradient, and an optimizer of its own, if it has one."""

    def __init__(self, param_id: Any, param: Any, shape: Any = None, grad: Any = None):
        self.param_id, self.blob, self.shape, self.grad = param_id, param, shape, grad
        self.name = str(param)
        self.optimizer: Optional[Any] = None

    @property
    def parameter(self) -> Any:
        return self.blob

    def __str__(self) -> str:
        return self.name
