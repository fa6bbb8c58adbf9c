"""The memory of a step: bounds in bytes, and the same bits in whatever memory it runs."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import export
from optimize.memory.plan import plan_net
from optimize.training import step_plans, update_early
from runtime_arm.errors import ResourceError, UsageError
from runtime_arm.execution.executor import Executor
from runtime_arm.execution.workspace import run_init_net
from runtime_arm.netdef import Array, NetDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec
from tests.training.nets import classifier, pair_of, residual, samples
from training.solvers import SGD, Adam
from training.trainer import Trainer

State = Dict[str, Array]


def peaks(trainer: Trainer, feeds: Dict[str, Any]) -> List[int]:
    """The memory of every way to run a step."""
    init, net = trainer.nets()
    values = {**run_init_net(init), **feeds}
    specs = {name: TensorSpec(value.shape, value.dtype) for name, value in values.items()}
    return [plan.peak for plan in step_plans(net, specs, [*trainer.state(), "loss"])]


def trained(pair: Pair, feeds: Dict[str, Any], **options: Any) -> Tuple[List[float], State]:
    trainer = Trainer(pair, solver=Adam(0.01), **options)
    return [trainer.step(feeds) for _ in range(3)], trainer.state()


def unplanned(pair: Pair, feeds: Dict[str, Any]) -> Tuple[List[float], State]:
    """Each operator alone, in the order of the net, with memory of its own."""
    trainer = Trainer(pair, solver=Adam(0.01))
    init, net = trainer.nets()
    blobs: Dict[str, Any] = {**run_init_net(init), **feeds}
    losses = []
    shapes = {name for op in net.op if op.type == "Shape" for name in op.output}  # are known when a net is planned
    for _ in range(3):
        for op in net.op:
            one = Executor(NetDef("one", (op,)), {name: blobs[name] for name in op.reads() if name in shapes})
            read = {name: blobs[name] for name in op.reads() if name not in shapes}
            blobs.update(one.run(read, [name for name in op.output if name]))
        losses.append(float(blobs["loss"]))
    return losses, {name: blobs[name] for name in trainer.state()}


def assert_same(one: Tuple[List[float], State], other: Tuple[List[float], State]) -> None:
    assert one[0] == other[0]
    for name, value in one[1].items():
        np.testing.assert_array_equal(value, other[1][name], err_msg=name)


def pictures() -> Dict[str, Any]:
    """A batch for ``residual``, whose blobs are as large as its input: 24,576 bytes."""
    random = np.random.default_rng(0)
    return {"x": random.standard_normal((8, 3, 16, 16)).astype(np.float32), "label": np.arange(8, dtype=np.int32) % 3}


def test_a_residual_net_takes_no_more_than_its_order_asks_for() -> None:
    trainer = Trainer(residual(6), solver=SGD(0.1, momentum=0.9))
    memory = trainer.memory(pictures())
    blob, mask, small = 24576, 24576 // 32, 64
    # the batch; of each block what is normalised, the result, the mask of its ReLU, mean and variance
    kept = blob + 6 * (2 * blob + mask + 2 * small)
    assert memory.kept <= kept + 8 * 2 * small
    assert memory.repeated == 0
    init, net = trainer.nets()
    values = {**run_init_net(init), **pictures()}
    plan = plan_net(update_early(net), {name: TensorSpec(v.shape, v.dtype) for name, v in values.items()})
    # the gradients of a block's result and of its input take turns in the memory of what lies behind the block
    assert plan.blobs <= memory.state + kept + blob + 8 * 2 * small
    assert plan.blobs <= memory.arena  # with scratch memory
    assert str(memory).startswith("a step takes")


def test_a_net_keeps_offsets_and_masks_instead_of_activations() -> None:
    memory = Trainer(classifier(), solver=SGD(0.1)).memory(samples())
    maps, pooled = 12 * 4 * 36 * 4, 12 * 4 * 9 * 4
    batch, mask, offsets, statistics, small = 12 * 2 * 36 * 4 + 64, 256, 448, 64, 192
    # h1, p1, h2, n2 and r2, but not r1; what the classifier reads and makes; the loss
    assert memory.kept <= batch + maps + 4 * pooled + mask + offsets + 4 * statistics + 3 * small + 64


def test_less_memory_means_more_operators_and_the_same_bits() -> None:
    feeds = pictures()
    found = peaks(Trainer(residual(), solver=Adam(0.01)), feeds)
    assert len(found) > 4
    assert found == sorted(found, reverse=True)
    expected = trained(residual(), feeds)
    assert_same(unplanned(residual(), feeds), expected)
    arenas, repeated = [], []
    for peak in found:
        budget = peak + 4096
        memory = Trainer(residual(), solver=Adam(0.01), memory=budget).memory(feeds)
        assert memory.arena <= budget
        arenas.append(memory.arena)
        repeated.append(memory.repeated)
        assert_same(trained(residual(), feeds, memory=budget), expected)
    assert arenas == sorted(arenas, reverse=True)
    assert repeated[0] == 0 < repeated[-1]
    assert arenas[-1] < 0.9 * arenas[0]  # half of which is scratch memory


def test_too_little_memory_is_one_line_that_says_how_much_is_enough() -> None:
    trainer = Trainer(classifier(), memory=1000)
    with pytest.raises(ResourceError, match=r"takes at least [\d,]+ bytes, more than the 1,000") as caught:
        trainer.step(samples())
    least = int(str(caught.value).split("at least ")[1].split(" bytes")[0].replace(",", ""))
    Trainer(classifier(), memory=least).step(samples())
    with pytest.raises(ResourceError):
        Trainer(classifier(), memory=least - 64).step(samples())
    with pytest.raises(UsageError, match="iter_size"):
        Trainer(classifier(), solver=SGD(iter_size=2), memory=10**9)


def test_the_parts_of_a_step_count_together() -> None:
    whole = Trainer(classifier(), solver=SGD(0.1)).memory(samples(12))
    parts = Trainer(classifier(), solver=SGD(0.1, iter_size=3)).memory(samples(12))
    assert parts.kept < 0.5 * whole.kept


def test_batches_of_other_sizes_are_planned_anew() -> None:
    one, other = Trainer(classifier(), memory=10**7), Trainer(classifier())
    for size in (12, 5, 12, 5):
        assert one.step(samples(size)) == other.step(samples(size))
    assert one.memory(samples(5)).arena < one.memory(samples(50)).arena


def test_sizes_that_depend_on_data_have_no_bound() -> None:
    text = """
    net "n": x, m, w, b -> y
    onnx.NonZero(m) -> k
    Reshape(k) -> rows, shape  shape=[-1]
    Gather(x, rows) -> chosen
    ReduceMean(chosen) -> mean  axes=[0]  keepdims=1
    FC(mean, w, b) -> y
    """
    pair = pair_of(text, {"w": np.ones((3, 4)), "b": np.zeros(3)})
    feeds = {"x": np.ones((6, 4)), "m": np.array([1.0, 0, 1, 1, 0, 0]), "label": np.array([1])}
    trainer = Trainer(pair, solver=SGD(0.1))
    assert trainer.memory(feeds).arena > 0
    assert trainer.step(feeds) > trainer.step(feeds)
    with pytest.raises(UsageError, match="depend on data"):
        Trainer(pair, solver=SGD(0.1), memory=10**9).step(feeds)


def test_a_transformer_learns_the_same_in_any_memory() -> None:
    random = np.random.default_rng(0)
    weights: Dict[str, Any] = {"w": random.standard_normal((3, 16)), "b": np.zeros(3)}
    lines, x = [], "x"
    for at in range(2):
        weights.update({f"{n}{at}w": random.standard_normal((16, 16)) * 0.3 for n in "qkvm"})
        weights.update({f"g{at}": np.ones(16), f"b{at}": np.zeros(16)})
        lines += [f"onnx.MatMul({x}, {n}{at}w) -> {n}{at}" for n in "qkv"]
        lines.append(f"Transpose(k{at}) -> t{at}  axes=[0, 2, 1]")
        lines.append(f"onnx.MatMul(q{at}, t{at}) -> s{at}")
        lines.append(f"Softmax(s{at}) -> p{at}  axis=2")
        lines.append(f"onnx.MatMul(p{at}, v{at}) -> a{at}")
        lines.append(f"Sum(a{at}, {x}) -> r{at}")
        lines.append(f"LayerNorm(r{at}, g{at}, b{at}) -> n{at}, mean{at}, sd{at}  axis=2  elementwise_affine=1")
        lines.append(f"onnx.MatMul(n{at}, m{at}w) -> h{at}")
        lines.append(f"Gelu(h{at}) -> e{at}")
        lines.append(f"Sum(e{at}, n{at}) -> y{at}")
        x = f"y{at}"
    lines += [f"ReduceMean({x}) -> mean  axes=[1]  keepdims=0", "FC(mean, w, b) -> y"]
    pair = pair_of("\n".join([f'net "n": x, {", ".join(weights)} -> y', *lines]), weights)
    feeds = {"x": random.standard_normal((3, 10, 16)).astype(np.float32), "label": np.arange(3, dtype=np.int32)}
    expected = trained(pair, feeds)
    assert_same(unplanned(pair, feeds), expected)
    found = peaks(Trainer(pair, solver=Adam(0.01)), feeds)
    assert len(found) > 3
    assert_same(trained(pair, feeds, memory=found[-1] + 4096), expected)


LAYERS = ("conv", "norm", "relu", "sigmoid", "pool", "add", "concat", "same")


@st.composite
def nets(draw: st.DrawFn) -> Pair:
    """Chains of small layers with residual additions, as text."""
    random = np.random.default_rng(draw(st.integers(0, 99)))
    weights: Dict[str, Any] = {}
    lines, blobs, now, channels = [], ["x"], "x", 3
    for at, layer in enumerate(draw(st.lists(st.sampled_from(LAYERS), min_size=3, max_size=14))):
        made = f"b{at}"
        if layer == "conv":
            weights[f"w{at}"] = random.standard_normal((3, channels, 3, 3)) * 0.4
            lines.append(f"Conv({now}, w{at}) -> {made}  kernel=3  pad=1")
            channels = 3
        elif layer == "norm":
            names = [f"{letter}{at}" for letter in "stmv"]
            weights.update(zip(names, (np.ones(channels), np.zeros(channels), np.zeros(channels), np.ones(channels))))
            lines.append(f"SpatialBN({now}, {', '.join(names)}) -> {made}  is_test=1")
        elif layer == "add" and channels == 3:
            other = draw(st.sampled_from(blobs))
            lines.append(f"Sum({now}, {other}) -> {made}")
        elif layer == "concat" and channels == 3:
            other = draw(st.sampled_from(blobs))
            lines.append(f"Concat({now}, {other}) -> {made}, {made}_sizes  axis=1")
            channels = 6
        else:
            type = {"sigmoid": "Sigmoid", "pool": "MaxPool", "same": "Tanh"}.get(layer, "Relu")
            lines.append(f"{type}({now}) -> {made}" + ("  kernel=3  pad=1" if layer == "pool" else ""))
        if channels == 3:
            blobs.append(made)
        now = made
    weights.update(wl=random.standard_normal((3, channels)), bl=np.zeros(3))
    lines += [f"AveragePool({now}) -> g  global_pooling=1", "FC(g, wl, bl) -> y"]
    return pair_of("\n".join([f'net "n": x, {", ".join(weights)} -> y', *lines]), weights)


@settings(max_examples=8)
@given(nets())
def test_random_nets_learn_the_same_in_any_memory(pair: Pair) -> None:
    random = np.random.default_rng(0)
    feeds = {"x": random.standard_normal((4, 3, 8, 8)).astype(np.float32), "label": np.arange(4, dtype=np.int32) % 3}
    expected = trained(pair, feeds)
    assert_same(unplanned(pair, feeds), expected)
    found = peaks(Trainer(pair, solver=Adam(0.01)), feeds)
    for peak in found[:: max(1, len(found) // 2)]:
        assert_same(trained(pair, feeds, memory=peak + peak // 8 + 4096), expected)


TORCH_KEEPS = 88_773_796  # bytes that PyTorch 2.13 saves for the backward pass, counted by its saved_tensors_hooks


def test_resnet18_keeps_less_for_the_way_back_than_pytorch() -> None:
    known = pytest.importorskip("device_tests.host.networks.known", reason="the networks are made with onnx")
    pair = export(known.build("resnet18", batch="n"))
    feeds = {"data": np.zeros((4, 3, 224, 224), np.float32), "label": np.zeros(4, np.int32)}
    plain = Trainer(pair, solver=SGD(0.1, momentum=0.9)).memory(feeds)
    assert plain.kept <= 0.82 * TORCH_KEEPS
    assert plain.repeated == 0
    for share, kept in ((0.89, 0.6), (0.78, 0.4)):
        budget = int(share * plain.arena)
        less = Trainer(pair, solver=SGD(0.1, momentum=0.9), memory=budget).memory(feeds)
        assert less.arena <= budget
        assert less.kept <= kept * TORCH_KEEPS
