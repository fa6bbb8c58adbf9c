"""Runs ONNX models through export and Predictor behind ONNX's own backend interface."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx.backend import base

from exporter.onnx.export import from_onnx
from exporter.onnx.weights import NARROW
from runtime_arm.execution.predictor import Predictor


class BackendRep(base.BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: onnx.ModelProto, **options: Any):
        self._predictor = Predictor(from_onnx(model), **options)
        self._sequences = {value.name for value in model.graph.output if value.type.HasField("sequence_type")}
        self._narrow = {
            value.name: dtype for value in [*model.graph.input, *model.graph.output] for dtype in _dtype(value)
        }

    def run(self, inputs: Any, **kwargs: Any) -> Tuple[Any, ...]:
        """The outputs in the model's order, for the inputs in its order or by name."""
        feeds = inputs if isinstance(inputs, dict) else list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        named = feeds if isinstance(feeds, dict) else dict(zip((info.name for info in self._predictor.inputs), feeds))
        held = {info.name: info.dtype for info in self._predictor.inputs if info.name in self._narrow}
        outputs = self._predictor.run({name: _as(array, held.get(name)) for name, array in named.items()})
        typed = {info.name: _as(outputs[info.name], self._narrow.get(info.name)) for info in self._predictor.outputs}
        return tuple(list(value) if name in self._sequences else value for name, value in typed.items())


def _dtype(value: onnx.ValueInfoProto) -> List[Any]:
    """The declared dtype if it is one that NumPy lacks and another package has."""
    number = value.type.tensor_type.elem_type
    return [onnx.helper.tensor_dtype_to_np_dtype(number)] if number in NARROW else []


def _as(array: Any, dtype: Any) -> Any:
    return array if dtype is None else np.asarray(array).astype(dtype)


class Backend(base.Backend):
    """``onnx.backend.base.Backend`` on the CPU."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the device is the CPU."""
        return device.split(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be prepared; ``prepare`` says why not."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """The model ready to run, again and again. ArmnetError if it cannot be translated; options go to Predictor."""
        return BackendRep(model, **kwargs)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> Tuple[Any, ...]:
        """One run of a model."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Optional[Sequence[Tuple[Any, Tuple[int, ...]]]] = None,
        **kwargs: Any,
    ) -> Tuple[Any, ...]:
        """One run of a single node; the keyword ``opset_version`` names its opset, the newest by default."""
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        given = [name for name in node.input if name]
        arrays = [np.asarray(array) for array in (map(inputs.get, given) if isinstance(inputs, dict) else inputs)]
        values = [_value_info(name, array.dtype, array.shape) for name, array in dict(zip(given, arrays)).items()]
        outputs: List[onnx.ValueInfoProto] = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", values, outputs)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, version)])
        return cls.run_model(model, dict(zip(given, arrays)), device, **kwargs)


def _value_info(name: str, dtype: Any, shape: Sequence[int]) -> onnx.ValueInfoProto:
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return onnx.helper.make_tensor_value_info(name, number, shape)
