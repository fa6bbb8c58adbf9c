"""A small decoder as onnxruntime's model builder writes them, against onnxruntime, plain and optimised."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from device_tests.suite.tolerance import WHOLE_NETWORK, assert_network_close
from exporter import export
from optimize import optimize
from runtime_arm import Predictor
from tests.exporter.onnx.models import model, value

HIDDEN, HEADS, KEY_HEADS, DEPTH, WORDS, LAYERS, BLOCK = 64, 4, 2, 16, 50, 2, 32
MICROSOFT = "com.microsoft"
CARRY = {f"past.{i}.{part}": f"present.{i}.{part}" for i in range(LAYERS) for part in ("key", "value")}


class Decoder:
    """Collects nodes and weights."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: List[onnx.NodeProto] = []
        self.weights: Dict[str, Any] = {}

    def add(self, type: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(type, list(inputs), list(outputs), domain=domain, **attributes))
        return outputs[0]

    def weight(self, name: str, array: Any) -> str:
        self.weights[name] = array
        return name

    def linear(self, x: str, name: str, depth: int, columns: int) -> str:
        """A product by 4-bit weights."""
        blocks = depth // BLOCK
        numbers = self.rng.integers(0, 256, (columns, blocks, BLOCK // 2)).astype(np.uint8)
        scales = (self.rng.uniform(0.5, 1.5, (columns, blocks)) / 8 / depth**0.5).astype(np.float32)
        operands = [x, self.weight(f"{name}.q", numbers), self.weight(f"{name}.s", scales)]
        sizes = {"K": depth, "N": columns, "bits": 4, "block_size": BLOCK}
        return self.add("MatMulNBits", operands, [f"{name}.y"], MICROSOFT, **sizes)

    def scale(self, name: str) -> str:
        return self.weight(name, self.rng.uniform(0.5, 1.5, HIDDEN).astype(np.float32))


def decoder() -> onnx.ModelProto:
    net = Decoder()
    one = net.weight("one", np.array([1], np.int64))
    net.add("ReduceSum", ["attention_mask", one], ["counts"], keepdims=0)
    net.add("Sub", ["counts", one], ["ends"])
    net.add("Cast", ["ends"], ["last"], to=6)
    net.add("Shape", ["attention_mask"], ["mask_shape"])
    net.add("Gather", ["mask_shape", net.weight("at", np.array(1))], ["length"], axis=0)
    net.add("Cast", ["length"], ["total"], to=6)
    angles = np.arange(32)[:, np.newaxis] * 0.5 ** np.arange(DEPTH // 2)
    for function in (np.cos, np.sin):
        net.weight(function.__name__, function(angles).astype(np.float32))
    words = net.weight("words", net.rng.integers(0, 256, (WORDS, HIDDEN // 2)).astype(np.uint8))
    scales = net.weight("word_scales", net.rng.uniform(0.1, 0.2, (WORDS, HIDDEN // BLOCK)).astype(np.float32))
    gathering = {"bits": 4, "block_size": BLOCK, "gather_axis": 0, "quantize_axis": 1}
    stream = net.add("GatherBlockQuantized", [words, "input_ids", scales], ["x"], MICROSOFT, **gathering)
    normal = net.add("SimplifiedLayerNormalization", [stream, net.scale("g")], ["n"], epsilon=1e-5)
    for i in range(LAYERS):
        joined = net.linear(normal, f"{i}.qkv", HIDDEN, (HEADS + 2 * KEY_HEADS) * DEPTH)
        caches = [f"past.{i}.key", f"past.{i}.value"]
        outputs = [f"{i}.attended", f"present.{i}.key", f"present.{i}.value"]
        operands = [joined, "", "", *caches, "last", "total", "cos", "sin"]
        heads = {"num_heads": HEADS, "kv_num_heads": KEY_HEADS, "do_rotary": 1, "local_window_size": 6}
        net.add("GroupQueryAttention", operands, outputs, MICROSOFT, **heads)
        skip = net.linear(f"{i}.attended", f"{i}.o", HEADS * DEPTH, HIDDEN)
        names = [f"{i}.n", "", "", f"{i}.sum"]
        normal = net.add("SkipSimplifiedLayerNormalization", [stream, skip, net.scale(f"{i}.g")], names, MICROSOFT)
        gate, up = (net.linear(normal, f"{i}.{part}", HIDDEN, 96) for part in ("gate", "up"))
        active = net.add("QuickGelu", [gate], [f"{i}.a"], MICROSOFT, alpha=1.0)
        down = net.linear(net.add("Mul", [active, up], [f"{i}.m"]), f"{i}.down", 96, HIDDEN)
        names = [f"{i}.n2", "", "", f"{i}.sum2"]
        normal = net.add("SkipSimplifiedLayerNormalization", [f"{i}.sum", down, net.scale(f"{i}.g2")], names, MICROSOFT)
        stream = f"{i}.sum2"
    net.add("Identity", [net.linear(normal, "head", HIDDEN, WORDS)], ["logits"])
    inputs = [value("input_ids", ["n", "s"], np.int64), value("attention_mask", ["n", "t"], np.int64)]
    inputs += [value(name, ["n", KEY_HEADS, "p", DEPTH]) for name in CARRY]
    outputs = [value("logits", ["n", "s", WORDS]), *(value(n, ["n", KEY_HEADS, "t", DEPTH]) for n in CARRY.values())]
    return model(net.nodes, inputs, outputs, net.weights, opset=21)


def steps() -> List[Dict[str, Any]]:
    """A prompt of 5 words, then 4 words, one at a time."""
    rng = np.random.default_rng(1)
    found = [{"input_ids": rng.integers(0, WORDS, (1, 5)), "attention_mask": np.ones((1, 5), np.int64)}]
    for length in range(6, 10):
        found.append({"input_ids": rng.integers(0, WORDS, (1, 1)), "attention_mask": np.ones((1, length), np.int64)})
    return found


def empty() -> Dict[str, Any]:
    return {name: np.zeros((1, KEY_HEADS, 0, DEPTH), np.float32) for name in CARRY}


@pytest.fixture(scope="module")
def expected() -> List[Any]:
    session = onnxruntime.InferenceSession(decoder().SerializeToString(), providers=["CPUExecutionProvider"])
    caches, found = empty(), []
    for feed in steps():
        logits, *presents = session.run(["logits", *CARRY.values()], {**feed, **caches})
        caches = dict(zip(CARRY, presents))
        found.append(logits)
    return found


@pytest.mark.parametrize("optimised", [False, True])
@pytest.mark.parametrize("carries", [False, True])
def test_decoder(optimised: bool, carries: bool, expected: List[Any]) -> None:
    pair = export(decoder())
    with Predictor(optimize(pair) if optimised else pair) as predictor:
        caches = empty()
        for feed, wanted in zip(steps(), expected):
            found = predictor.run({**feed, **caches}, carry=CARRY if carries else None)
            assert_network_close(found["logits"], wanted, relative=2 * WHOLE_NETWORK)  # both sides round
            caches = {} if carries else {name: found[output] for name, output in CARRY.items()}
