"""``caffe2.python.model_helper``: a net, the net that makes its parameters, and what is known of these."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from armnet.standins.caffe2.python import core
from armnet.standins.caffe2.python.modeling.parameter_info import ParameterInfo, ParameterTags

__all__ = ["ExtractPredictorNet", "ModelHelper"]


class ModelHelper:
    """``net`` computes, ``param_init_net`` makes the parameters; operators of ``net`` are methods.

    With ``init_params=False`` parameters are expected in the workspace. ``param_model`` is a model whose parameters
    this one has, too. ``arg_scope``: arguments of all layers of ``brew``.
    """

    def __init__(
        self,
        name: Optional[str] = None,
        init_params: bool = True,
        allow_not_known_ops: bool = True,
        skip_sparse_optim: bool = False,
        param_model: Optional[ModelHelper] = None,
        arg_scope: Optional[Mapping[str, Any]] = None,
    ):
        self.name = name or "model"
        self.net = core.Net(self.name)
        self.init_params, self.skip_sparse_optim = init_params, skip_sparse_optim
        owner = param_model
        self.param_init_net: Any = core.Net(f"{self.name}_init") if owner is None else owner.param_init_net
        self.params: List[Any] = [] if owner is None else owner.params
        self.param_to_grad: Dict[Any, Any] = {} if owner is None else owner.param_to_grad
        self._infos: Dict[str, ParameterInfo] = {} if owner is None else owner._infos
        self._computed: List[Any] = [] if owner is None else owner._computed
        self.weights: List[Any] = []
        self.biases: List[Any] = []
        self.gradient_ops_added = False
        self.grad_map: Dict[str, Any] = {}
        self.arg_scope: Dict[str, Any] = {"order": "NCHW", "use_cudnn": True, "cudnn_exhaustive_search": False}
        self.arg_scope.update(arg_scope or {})

    def get_name(self) -> str:
        return self.name

    def Proto(self) -> Any:
        return self.net.Proto()

    def InitProto(self) -> Any:
        return self.param_init_net.Proto()

    def RunAllOnGPU(self, *args: Any, **kwargs: Any) -> None:
        self.net.RunAllOnGPU(*args, **kwargs)

    # Parameters

    def create_param(self, param_name: Any, shape: Any, initializer: Any, tags: Any = None) -> Any:
        """The blob of a parameter, which the initializer makes. One that is there already is given again."""
        name = core.ScopedName(param_name) if isinstance(param_name, str) else str(param_name)
        if name not in self._infos:
            blob = core.BlobReference(name)
            info = initializer.create_param(param_name=blob, init_net=self.param_init_net, shape=shape)
            self._infos[name] = info
            self.AddParameter(info.blob, tags)
        elif self._infos[name].shape != shape:
            raise AssertionError(f"parameter {name!r} has the shape {self._infos[name].shape}, not {shape}")
        return self._infos[name].blob

    def AddParameter(self, param: Any, tags: Any = None) -> None:
        """Note that a blob is a parameter; COMPUTED_PARAM: one that is not learned."""
        own = set(tags if isinstance(tags, (list, tuple, set)) else [tags])
        (self._computed if ParameterTags.COMPUTED_PARAM in own else self.params).append(param)
        if ParameterTags.WEIGHT in own:
            self.weights.append(param)
        if ParameterTags.BIAS in own:
            self.biases.append(param)

    def GetParams(self, namescope: Optional[str] = None, top_scope: bool = False) -> List[Any]:
        return self._within(self.params, namescope)

    def GetComputedParams(self, namescope: Optional[str] = None) -> List[Any]:
        return self._within(self._computed, namescope)

    def GetAllParams(self, namescope: Optional[str] = None) -> List[Any]:
        return self.GetParams(namescope) + self.GetComputedParams(namescope)

    def _within(self, params: Iterable[Any], namescope: Optional[str]) -> List[Any]:
        prefix = core.ScopedName("") if namescope is None else namescope
        prefix = f"{prefix}/" if prefix and not prefix.endswith("/") else prefix
        return [param for param in params if str(param).startswith(prefix)]

    def get_param_info(self, param: Any) -> Optional[ParameterInfo]:
        return self._infos.get(str(param))

    def Validate(self) -> None:
        """AssertionError if a parameter was added twice."""
        names = [str(param) for param in self.params]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise AssertionError(f"Duplicate params: {twice}")

    # Gradients

    def AddGradientOperators(self, *args: Any, **kwargs: Any) -> Dict[str, Any]:
        """``net.AddGradientOperators``, once; afterwards ``param_to_grad`` has the parameters' gradients."""
        if self.gradient_ops_added:
            raise RuntimeError("You cannot run AddGradientOperators twice.")
        self.Validate()
        self.gradient_ops_added = True
        self.grad_map = self.net.AddGradientOperators(*args, **kwargs)
        self.param_to_grad = self.get_param_to_grad(self.params)
        for param, gradient in self.param_to_grad.items():
            self._infos.setdefault(str(param), ParameterInfo(None, param)).grad = gradient
        return self.grad_map

    def get_param_to_grad(self, params: Iterable[Any]) -> Dict[Any, Any]:
        if not self.gradient_ops_added:
            raise RuntimeError("You need to run AddGradientOperators first.")
        return {param: self.grad_map[str(param)] for param in params if str(param) in self.grad_map}

    def GetOptimizationParamInfo(self, params: Optional[Iterable[Any]] = None) -> List[Any]:
        """What is known of the parameters that have a gradient."""
        chosen = self.get_param_to_grad(self.params if params is None else params)
        return [
            self.get_param_info(param)
            for param, gradient in chosen.items()
            if not (self.skip_sparse_optim and isinstance(gradient, core.GradientSlice))
        ]

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_") or op_type == "net":
            raise AttributeError(op_type)
        operator: Callable[..., Any] = getattr(self.net, op_type)
        return operator


def ExtractPredictorNet(
    net_proto: Any,
    input_blobs: Iterable[Any],
    output_blobs: Iterable[Any],
    device: Any = None,
    renames: Optional[Mapping[str, str]] = None,
    disabled_inputs: Optional[Iterable[Any]] = None,
) -> Any:
    """The operators of a net that lead from blobs to blobs, as a net, and the names of its inputs.

    RuntimeError if one of them has is_test=0: then the net is one for training.
    """
    inputs, outputs = {str(blob) for blob in input_blobs}, {str(blob) for blob in output_blobs}
    outside = set(net_proto.external_input) - {str(blob) for blob in disabled_inputs or ()}
    ops = list(net_proto.op)
    starts = [at for at, op in enumerate(ops) if inputs & set(op.input) and op.type != "StopGradient"]
    ends = [at for at, op in enumerate(ops) if outputs & set(op.output)]
    if not starts or not ends:
        raise RuntimeError(f"no operator has an input of {sorted(inputs)}, or none an output of {sorted(outputs)}")
    net = core.Net(f"{net_proto.name}_predict")
    known, read, new = outside | inputs, set(inputs), dict(renames or {})
    for op in ops[starts[0] : ends[-1] + 1]:
        if not known.issuperset(op.input):
            continue
        if any(arg.name == "is_test" and arg.i == 0 for arg in op.arg):
            raise RuntimeError(f"{op.type} has is_test=0: take the predictor from a net for tests, not for training")
        known.update(op.output)
        read.update(outside.intersection(op.input))
        added = net.Proto().op.add()
        added.CopyFrom(op)
        for names in (added.input, added.output):
            names[:] = [new.get(name, name) for name in names]
    net.Proto().external_input.extend(new.get(name, name) for name in sorted(read))
    net.Proto().external_output.extend(new.get(name, name) for name in sorted(outputs))
    return net, [new.get(name, name) for name in sorted(inputs)]
