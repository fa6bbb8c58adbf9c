"""``caffe2.python.modeling.initializers``: how parameters are made."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from armnet.standins.caffe2.python.modeling.parameter_info import ParameterInfo

Recipe = Tuple[str, Mapping[str, Any]]


class Initializer:
    """Parameters are filled by an operator, with these arguments."""

    def __init__(self, operator_name: str, **kwargs: Any):
        self.operator_name, self.operator_kwargs = operator_name, kwargs

    def create_param(self, param_name: Any, init_net: Any, shape: Any) -> ParameterInfo:
        fill = getattr(init_net, self.operator_name)
        return ParameterInfo(None, fill([], param_name, shape=shape, **self.operator_kwargs), shape)


class ExternalInitializer:
    """Parameters are in the workspace already."""

    def create_param(self, param_name: Any, init_net: Any, shape: Any) -> ParameterInfo:
        return ParameterInfo(None, param_name, shape)


def update_initializer(
    initializer_class: Any,
    operator_name_and_kwargs: Optional[Recipe],
    default_operator_name_and_kwargs: Recipe,
) -> Any:
    """An initializer, of a class if one is given, for the operator that is asked for."""
    operator, arguments = operator_name_and_kwargs or default_operator_name_and_kwargs
    return (initializer_class or Initializer)(operator, **arguments)
