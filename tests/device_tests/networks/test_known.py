"""The built networks match the literature, run, and give different outputs for different pictures."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest

from device_tests.host.networks import known as networks
from device_tests.suite.tolerance import assert_network_close
from runtime_arm.errors import UsageError

SMALL = 32


class Published(NamedTuple):
    """The figures that torchvision publishes for a network: learned parameters, and multiply-adds at 224x224, in
    millions."""

    parameters: int
    multiply_adds: float


PUBLISHED = {
    "squeezenet1_1": Published(1_235_496, 0.349e9),
    "vgg16_conv": Published(14_714_688, 15.35e9),
    "resnet18": Published(11_689_512, 1.814e9),
    "resnet50": Published(25_557_032, 4.089e9),
    "mobilenet_v2": Published(3_504_872, 0.301e9),
    "mobilenet_v3_small": Published(2_542_856, 0.057e9),
    "efficientnet_b0": Published(5_288_548, 0.386e9),
    "densenet121": Published(7_978_856, 2.834e9),
    "googlenet": Published(6_624_904, 1.498e9),
}


def learned_parameters(model: onnx.ModelProto) -> int:
    """Elements of all weights except running statistics and the limits of Clip."""
    not_learned = set()
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            not_learned.update(node.input[3:])
        elif node.op_type == "Clip":
            not_learned.update(node.input[1:])
    return sum(prod(weight.dims) for weight in model.graph.initializer if weight.name not in not_learned)


def multiply_adds(model: onnx.ModelProto) -> int:
    """Multiply-adds of the convolutions and fully connected layers, from ONNX's shape inference."""
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    shapes = {weight.name: tuple(weight.dims) for weight in graph.initializer}
    for value in [*graph.value_info, *graph.output]:
        shapes[value.name] = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
    total = 0
    for node in graph.node:
        if node.op_type == "Conv":
            total += prod(shapes[node.output[0]]) * prod(shapes[node.input[1]][1:])
        elif node.op_type == "Gemm":
            total += prod(shapes[node.input[1]])
    return total


def run(model: onnx.ModelProto, data: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"data": data})
    return np.asarray(result)


def noise(batch: int, size: int = SMALL) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((batch, 3, size, size), np.float32)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_multiply_adds_are_the_published_ones(name: str) -> None:
    model = networks.build(name)
    assert learned_parameters(model) == PUBLISHED[name].parameters
    assert multiply_adds(model) == pytest.approx(PUBLISHED[name].multiply_adds, rel=2e-3, abs=0.5e6)


def test_vgg16_has_the_published_classifier() -> None:
    model = networks.build("vgg16", image_size=SMALL)
    first_layer_shrinks_by = 4096 * 512 * (7**2 - 1**2)
    assert learned_parameters(model) == 138_357_544 - first_layer_shrinks_by


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_network_is_valid_and_tells_pictures_apart(name: str) -> None:
    model = networks.build(name, image_size=SMALL, batch="batch")
    onnx.checker.check_model(model, full_check=True)
    data = noise(2)
    output = run(model, data)
    declared = [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim]
    assert output.shape == (2, *declared[1:])
    assert np.isfinite(output).all()
    assert 0.01 < output.std() < 100
    assert np.linalg.norm(output[0] - output[1]) > 0.05 * np.linalg.norm(output[0])
    assert_network_close(run(model, data[1:]), output[1:])


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "densenet121", "googlenet", "unet"])
def test_batch_normalisations_stay_separate_nodes(name: str) -> None:
    nodes = networks.build(name, image_size=SMALL).graph.node
    assert sum(node.op_type == "BatchNormalization" for node in nodes) >= 18


@pytest.mark.parametrize("opset", [11, 13, 17, 20])
def test_opset_is_the_requested_one(opset: int) -> None:
    model = networks.build("mobilenet_v2", image_size=SMALL, opset=opset)
    onnx.checker.check_model(model, full_check=True)
    assert [entry.version for entry in model.opset_import] == [opset]
    assert run(model, noise(1)).shape == (1, 1000)


def test_same_seed_gives_the_same_network_and_another_seed_another() -> None:
    first, same, other = (networks.build("squeezenet1_1", image_size=SMALL, seed=seed) for seed in (1, 1, 2))
    assert first == same
    assert first != other


def test_unet_keeps_the_image_size() -> None:
    assert run(networks.build("unet", image_size=48, classes=3), noise(1, size=48)).shape == (1, 3, 48, 48)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet19", {}, "no network 'resnet19'; there are squeezenet1_1, vgg16"),
        ("resnet18", {"opset": 9}, "resnet18: opset must be 11 to"),
        ("vgg16_conv", {"image_size": 16}, "vgg16_conv: a 2x2 window does not fit into .* of 1x1"),
        ("unet", {"image_size": 40}, "unet: Concat needs images of one size"),
    ],
)
def test_impossible_options_are_refused(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        networks.build(name, **options)
