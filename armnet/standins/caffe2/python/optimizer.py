"""``caffe2.python.optimizer``: the operators that change a model's parameters, appended after its gradients.

Blobs have the names that Caffe2 gives them, so that weights, moments and rates are found. Sparse gradients are taken as
they are: ``sparse_dedup_aggregator`` and pruning are refused.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from armnet.standins.caffe2.python import core
from armnet.standins.caffe2.python.modeling.parameter_info import ParameterInfo

_ITERATION = "optimizer_iteration"
_REFUSED = (
    "sparse_dedup_aggregator",
    "pruning_options",
    "swa_options",
    "ema_options",
    "counter_halflife",
    "allow_lr_injection",
)
_instances: Dict[str, int] = {}


def __getattr__(name: str) -> Any:
    raise AttributeError(f"armnet's stand-in for caffe2 has no optimizer.{name}")


class Optimizer:
    """Called with nets and a parameter it appends the operators that change that parameter.

    ``policy`` and what the class does not name are arguments of the learning rate, LearningRate's.
    """

    def __init__(self, rate: float, policy: str = "fixed", **of_rate: Any):
        refused = sorted(name for name in _REFUSED if of_rate.pop(name, None))
        if refused:
            raise NotImplementedError(f"armnet's stand-in for caffe2 has no {', '.join(refused)}")
        kind = type(self).__name__
        self._instance = _instances[kind] = _instances.get(kind, -1) + 1
        self.rate, self.policy, self.of_rate = rate, policy, of_rate
        self._multiplier: Optional[Any] = None

    def __call__(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> None:
        """param: what a model knows of a parameter, or its blob, with its gradient."""
        info = param if grad is None else ParameterInfo(None, core.BlobReference(param), grad=grad)
        if info.grad is None:
            raise AssertionError(f"{info} has no gradient")
        self._run(net, param_init_net, info)

    def _run(self, net: Any, param_init_net: Any, info: Any) -> None:
        raise NotImplementedError

    def make_unique_blob_name(self, base_str: str) -> str:
        return f"{type(self).__name__}_{self._instance}_{base_str}_cpu"

    def add_lr_multiplier(self, lr_multiplier: Any) -> None:
        """A blob that the learning rate is multiplied with."""
        self._multiplier = lr_multiplier

    def scale_learning_rate(self, scale: float) -> None:
        self.rate *= scale

    def _learning_rate(self, net: Any, init: Any, base: float, own_multiplier: Any = None) -> Tuple[Any, Any]:
        """The blobs of the learning rate and of the iteration; one of each for all parameters."""
        if not init.BlobIsDefined(_ITERATION):
            iteration = init.ConstantFill([], _ITERATION, shape=[1], value=0, dtype=core.DataType.INT64)
            mutex = init.CreateMutex([], ["iteration_mutex"])
            net.AtomicIter([mutex, iteration], [iteration])
        iteration, name = init.GetBlobRef(_ITERATION), self.make_unique_blob_name("lr")
        if net.BlobIsDefined(name):
            rate = net.GetBlobRef(name)
        else:
            rate = net.LearningRate([iteration], name, base_lr=base, policy=self.policy, **self.of_rate)
        if self._multiplier is not None:
            factor = net.CopyFromCPUInput(self._multiplier, self.make_unique_blob_name("lr_multiplier"))
            rate = net.Mul([rate, factor], self.make_unique_blob_name("scaled_lr"), broadcast=1)
        if own_multiplier is not None:
            rate = net.Mul([rate, own_multiplier], self.make_unique_blob_name("local_scaled_lr"), broadcast=1)
        return rate, iteration

    def _lars(self, net: Any, init: Any, info: Any, offset: Optional[float]) -> Any:
        """The multiplier of a parameter's own rate (LARS), None without an offset or for a sparse gradient."""
        if offset is None or isinstance(info.grad, core.GradientSlice):
            return None
        given = [
            init.ConstantFill([], name, shape=[1], value=value)
            for name, value in (("weight_decay", 0.0), ("trust", 1.0), ("lr_max", float(np.finfo(np.float32).max)))
        ]
        name = self.make_unique_blob_name(f"{info.blob}_lars")
        return net.Lars([info.blob, info.grad, *given], name, offset=offset, lr_min=0.0)


def _zeros(init: Any, info: Any, suffix: str, **more: Any) -> Any:
    return init.ConstantFill([info.blob], f"{info.blob}_{suffix}", value=0.0, **more)


def _one(init: Any) -> Any:
    return init.ConstantFill([], "ONE_0_0", shape=[1], value=1.0)


def _number(init: Any, info: Any, suffix: str, value: float) -> Any:
    return init.ConstantFill([], f"{info.blob}_{suffix}", shape=[1], value=value)


def _zero_of_each_row(init: Any, info: Any, suffix: str) -> Any:
    shape = init.Shape(info.blob, f"{info.blob}_shape")
    rows = init.Slice([shape], f"{shape}_numrows", starts=[0], ends=[1])
    return init.ConstantFill(rows, f"{info.blob}_{suffix}", input_as_shape=1, value=0.0)


def _update(net: Any, type: str, info: Any, state: List[Any], behind: List[Any], more: List[str], options: Any) -> None:
    """An update in place, Sparse<type> for a sparse gradient: parameter, state, gradient and the inputs behind it."""
    sparse = isinstance(info.grad, core.GradientSlice)
    gradient = [info.grad.indices, info.grad.values] if sparse else [info.grad]
    inputs, outputs = [info.blob, *state, *gradient, *behind], [info.blob, *state, *more]
    getattr(net, f"Sparse{type}" if sparse and not type.startswith("RowWise") else type)(inputs, outputs, **options)


class SgdOptimizer(Optimizer):
    def __init__(
        self,
        base_learning_rate: float = 0.01,
        policy: str = "fixed",
        momentum: float = 0.0,
        nesterov: bool = True,
        lars: Optional[float] = None,
        **kwargs: Any,
    ):
        super().__init__(base_learning_rate, policy, **kwargs)
        self.momentum, self.nesterov, self.lars = momentum, nesterov, lars

    def _run(self, net: Any, param_init_net: Any, info: Any) -> None:
        param, gradient, sparse = info.blob, info.grad, isinstance(info.grad, core.GradientSlice)
        own = self._lars(net, param_init_net, info, self.lars)
        rate, _ = self._learning_rate(net, param_init_net, self.rate if self.momentum else -self.rate, own)
        one = _one(param_init_net)
        if not self.momentum:
            if sparse:
                net.ScatterWeightedSum([param, one, gradient.indices, gradient.values, rate], param)
            else:
                net.WeightedSum([param, one, gradient, rate], param)
            return
        moment = _zeros(param_init_net, info, "momentum")
        options = {"momentum": self.momentum, "nesterov": self.nesterov}
        if sparse:
            inputs = [gradient.values, moment, rate, param, gradient.indices]
            net.SparseMomentumSGDUpdate(inputs, [gradient.values, moment, param], **options)
        else:
            net.MomentumSGDUpdate([gradient, moment, rate, param], [gradient, moment, param], **options)


class MultiPrecisionSgdOptimizer(SgdOptimizer):
    """SGD: armnet has no models whose parameters are float16 with a float32 copy."""


class AdagradOptimizer(Optimizer):
    def __init__(
        self,
        alpha: float = 0.01,
        epsilon: float = 1e-4,
        decay: float = 1.0,
        weight_decay: float = 0.0,
        policy: str = "fixed",
        rowWise: bool = False,
        engine: str = "",
        lars: Optional[float] = None,
        output_effective_lr: bool = False,
        output_effective_lr_and_update: bool = False,
        **kwargs: Any,
    ):
        super().__init__(alpha, policy, **kwargs)
        self.options = {"epsilon": epsilon, "engine": engine}
        self.decay, self.weight_decay, self.rowWise, self.lars = decay, weight_decay, rowWise, lars
        more = ["effective_lr"] if output_effective_lr or output_effective_lr_and_update else []
        self.more = more + (["update"] if output_effective_lr_and_update else [])

    def _run(self, net: Any, param_init_net: Any, info: Any) -> None:
        sparse = isinstance(info.grad, core.GradientSlice)
        if (self.rowWise and not sparse) or (sparse and self.decay != 1):
            raise AssertionError("rowWise is for sparse gradients alone, decay for others alone")
        if self.lars is not None and not sparse and self.weight_decay:
            raise AssertionError("weight decay is not implemented for LARS yet")
        own = self._lars(net, param_init_net, info, self.lars)
        rate, _ = self._learning_rate(net, param_init_net, -self.rate, own)
        if self.rowWise:
            state = _zero_of_each_row(param_init_net, info, "avg_squared_sum")
        else:
            state = _zeros(param_init_net, info, "squared_sum")
        more = [] if sparse else [f"{info.blob}_{name}" for name in self.more]
        options = {**self.options, **({} if sparse else {"decay": float(self.decay)})}
        if self.weight_decay and len(info.shape or (0, 0)) > 1:
            options["weight_decay"] = self.weight_decay
        _update(net, "RowWiseSparseAdagrad" if self.rowWise else "Adagrad", info, [state], [rate], more, options)


class AdamOptimizer(Optimizer):
    def __init__(
        self,
        alpha: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        policy: str = "fixed",
        use_lr_adaption: bool = False,
        lr_alpha: float = 0.01,
        normalized_lr_adaption: bool = True,
        rowWise: bool = False,
        engine: str = "",
        enableRAdam: bool = False,
        **kwargs: Any,
    ):
        super().__init__(alpha, policy, **kwargs)
        self.options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        self.rowWise, self.enableRAdam = rowWise, enableRAdam
        self.adaption = {"lr_alpha": lr_alpha, "normalized_lr_adaption": normalized_lr_adaption}
        self.use_lr_adaption = use_lr_adaption

    def _run(self, net: Any, param_init_net: Any, info: Any) -> None:
        sparse = isinstance(info.grad, core.GradientSlice)
        if self.rowWise and not sparse:
            raise AssertionError("rowWise is for sparse gradients alone")
        rate, iteration = self._learning_rate(net, param_init_net, -self.rate)
        state = [_zeros(param_init_net, info, "first_moment")]
        if self.rowWise:
            state.append(_zero_of_each_row(param_init_net, info, "avg_second_moment"))
        else:
            state.append(_zeros(param_init_net, info, "second_moment"))
        more = [f"{info.blob}_effective_grad"] if self.use_lr_adaption else []
        options = {**self.options, **({"enableRAdam": self.enableRAdam} if sparse and not self.rowWise else {})}
        _update(net, "RowWiseSparseAdam" if self.rowWise else "Adam", info, state, [rate, iteration], more, options)
        if more:
            values = info.grad.values if sparse else info.grad
            net.LearningRateAdaption([rate, values, *more], [rate], **self.adaption)


class AdadeltaOptimizer(Optimizer):
    def __init__(
        self,
        alpha: float = 0.01,
        epsilon: float = 1e-4,
        decay: float = 0.95,
        policy: str = "fixed",
        engine: str = "",
        **kwargs: Any,
    ):
        super().__init__(alpha, policy, **kwargs)
        self.options = {"epsilon": epsilon, "decay": decay, "engine": engine}

    def _run(self, net: Any, param_init_net: Any, info: Any) -> None:
        rate, _ = self._learning_rate(net, param_init_net, -self.rate)
        state = [_zeros(param_init_net, info, name) for name in ("squared_moment", "squared_moment_update")]
        _update(net, "Adadelta", info, state, [rate], [], self.options)


class RmsPropOptimizer(Optimizer):
    def __init__(
        self,
        alpha: float = 0.01,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-5,
        policy: str = "fixed",
        engine: str = "",
        **kwargs: Any,
    ):
        super().__init__(alpha, policy, **kwargs)
        self.options = {"decay": decay, "momentum": momentum, "epsilon": epsilon, "engine": engine}

    def _run(self, net: Any, param_init_net: Any, info: Any) -> None:
        if isinstance(info.grad, core.GradientSlice):
            raise AssertionError("RmsPropOptimizer doesn't support sparse gradients")
        one = _one(param_init_net)
        rate, _ = self._learning_rate(net, param_init_net, self.rate)
        step, *state = (_zeros(param_init_net, info, name) for name in ("grad_o", "mean_squares", "momentum"))
        net.RmsProp([info.grad, *state, one], [step, *state], **self.options)
        net.MomentumSGDUpdate([step, state[1], rate, info.blob], [step, state[1], info.blob])


class FtrlOptimizer(Optimizer):
    def __init__(
        self,
        alpha: float = 0.01,
        beta: float = 1e-4,
        lambda1: float = 0,
        lambda2: float = 0,
        sparse_dedup_aggregator: Optional[str] = None,
        engine: str = "",
    ):
        super().__init__(alpha, sparse_dedup_aggregator=sparse_dedup_aggregator)
        self.options = {"beta": beta, "lambda1": float(lambda1), "lambda2": float(lambda2), "engine": engine}

    def _run(self, net: Any, param_init_net: Any, info: Any) -> None:
        state = _zeros(param_init_net, info, "ftrl_nz", extra_shape=[2])
        _update(net, "Ftrl", info, [state], [], [], {**self.options, "alpha": self.rate})


class GFtrlOptimizer(FtrlOptimizer):
    def _run(self, net: Any, param_init_net: Any, info: Any) -> None:
        if isinstance(info.grad, core.GradientSlice):
            raise AssertionError("GFtrlOptimizer doesn't support sparse gradients")
        state = _zeros(param_init_net, info, "gftrl_nz", extra_shape=[2])
        _update(net, "GFtrl", info, [state], [], [], {**self.options, "alpha": self.rate})


class WngradOptimizer(Optimizer):
    def __init__(
        self,
        alpha: float = 1.0,
        epsilon: float = 1e-9,
        policy: str = "fixed",
        engine: str = "",
        moment_init: float = 100.0,
        lars: Optional[float] = None,
        output_effective_lr: bool = False,
        output_effective_lr_and_update: bool = False,
        **kwargs: Any,
    ):
        super().__init__(alpha, policy, **kwargs)
        self.options = {"epsilon": epsilon, "engine": engine}
        self.moment_init, self.lars = moment_init, lars
        more = ["effective_lr"] if output_effective_lr or output_effective_lr_and_update else []
        self.more = more + (["update"] if output_effective_lr_and_update else [])

    def _run(self, net: Any, param_init_net: Any, info: Any) -> None:
        own = self._lars(net, param_init_net, info, self.lars)
        rate, _ = self._learning_rate(net, param_init_net, -self.rate, own)
        moment = _number(param_init_net, info, "moment", self.moment_init)
        sparse = isinstance(info.grad, core.GradientSlice)
        more = [] if sparse else [f"{info.blob}_{name}" for name in self.more]
        _update(net, "Wngrad", info, [moment], [rate], more, self.options)


class StormOptimizer(Optimizer):
    def __init__(
        self,
        lr: float = 0.1,
        momentum: float = 10.0,
        beta: float = 0.1,
        grad_sq_init: float = 0.01,
        policy: str = "fixed",
        lars: Optional[float] = None,
        **kwargs: Any,
    ):
        super().__init__(lr, policy, **kwargs)
        self.options = {"momentum": momentum, "beta": beta}
        self.grad_sq_init, self.lars = grad_sq_init, lars

    def _run(self, net: Any, param_init_net: Any, info: Any) -> None:
        own = self._lars(net, param_init_net, info, self.lars)
        rate, _ = self._learning_rate(net, param_init_net, -self.rate, own)
        squares = _number(param_init_net, info, "grad_sq_sum", self.grad_sq_init)
        outputs = [info.blob, _zeros(param_init_net, info, "moment"), squares]
        if isinstance(info.grad, core.GradientSlice):
            net.SparseStorm([*outputs, info.grad.values, info.grad.indices, rate], outputs, **self.options)
        else:
            net.Storm([*outputs, info.grad, rate], outputs, **self.options)


class WeightDecayBuilder(Optimizer):
    def __init__(self, weight_decay: float):
        super().__init__(0.0)
        self.weight_decay = weight_decay

    def _run(self, net: Any, param_init_net: Any, info: Any) -> None:
        if isinstance(info.grad, core.GradientSlice):
            raise ValueError("Weight decay does not yet support sparse gradients")
        one = _one(param_init_net)
        decay = param_init_net.ConstantFill([], "wd_0_0", shape=[1], value=self.weight_decay)
        net.WeightedSum([info.grad, one, info.blob, decay], info.grad)


def _build(
    model: Any,
    optimizer: Optimizer,
    weights_only: bool = False,
    use_param_info_optim: bool = True,
    max_gradient_norm: Optional[float] = None,
) -> Optimizer:
    """Appends the updates of the parameters that have a gradient, which are scaled down to a common norm at most."""
    model.Validate()
    chosen = [info for info in model.GetOptimizationParamInfo() if not weights_only or info.blob in model.weights]
    optimizer.add_lr_multiplier(None if max_gradient_norm is None else _norm_ratio(model, chosen, max_gradient_norm))
    for info in chosen:
        own = info.optimizer if use_param_info_optim else None
        (own or optimizer)(model.net, model.param_init_net, info)
    return optimizer


def _norm_ratio(model: Any, chosen: List[Any], limit: float) -> Any:
    """limit / max(limit, the norm of all gradients)."""
    net, squares = model.net, []
    with core.NameScope("norm_clipped_grad_update"):
        for index, info in enumerate(chosen):
            gradient = info.grad.values if isinstance(info.grad, core.GradientSlice) else info.grad
            square = net.SumSqrElements(gradient, f"grad_{index}_squared_sum")
            squares.append(net.EnsureCPUOutput(square))
        norm = net.Pow(net.Sum(squares, "grad_squared_full_sum"), "global_norm", exponent=0.5)
        most = model.param_init_net.ConstantFill([], "clip_norm", shape=[], value=float(limit))
        return net.Div([most, net.Max([norm, most], "max_norm")], "norm_ratio")


def add_weight_decay(model: Any, weight_decay: float) -> None:
    """Adds this share of each weight to its gradient."""
    _build(model, WeightDecayBuilder(weight_decay), weights_only=True, use_param_info_optim=False)


def _builder(kind: Callable[..., Optimizer]) -> Callable[..., Optimizer]:
    def build(model: Any, base_learning_rate: float, max_gradient_norm: Optional[float] = None, **kwargs: Any) -> Any:
        return _build(model, kind(base_learning_rate, **kwargs), max_gradient_norm=max_gradient_norm)

    return build


build_sgd = _builder(SgdOptimizer)
build_adagrad = _builder(AdagradOptimizer)
build_adam = _builder(AdamOptimizer)
build_adadelta = _builder(AdadeltaOptimizer)
build_rms_prop = _builder(RmsPropOptimizer)
build_multi_precision_sgd = _builder(MultiPrecisionSgdOptimizer)
build_wngrad = _builder(WngradOptimizer)
build_storm = _builder(StormOptimizer)


def build_ftrl(model: Any, engine: str = "SIMD", **kwargs: Any) -> Optimizer:
    return _build(model, FtrlOptimizer(engine=engine, **kwargs))


def build_gftrl(model: Any, engine: str = "", **kwargs: Any) -> Optimizer:
    return _build(model, GFtrlOptimizer(engine=engine, **kwargs))
