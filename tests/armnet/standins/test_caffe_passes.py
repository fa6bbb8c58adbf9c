"""Programs that look into a net of the stand-in for pycaffe, and change it, between passes: whether a pass runs as one
planned network or layer by layer, they see the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

pytest.importorskip("google.protobuf", reason="Caffe's files are read with protobuf")

import armnet.standins.caffe as caffe
from armnet.standins import fusing
from device_tests.suite.tolerance import WHOLE_NETWORK

INPUT = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 10 dim: 10 } } }'
INCEPTION = (
    INPUT
    + """
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "norm" type: "LRN" bottom: "conv" top: "norm" lrn_param { local_size: 3 alpha: 0.1 } }
layer { name: "pool" type: "Pooling" bottom: "norm" top: "pool" pooling_param { kernel_size: 3 stride: 2 } }
layer { name: "a" type: "Convolution" bottom: "pool" top: "a"
  convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "b" type: "Convolution" bottom: "pool" top: "b"
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 group: 2 weight_filler { type: "xavier" } } }
layer { name: "relu_b" type: "ReLU" bottom: "b" top: "b" relu_param { negative_slope: 0.1 } }
layer { name: "cat" type: "Concat" bottom: "a" bottom: "b" top: "cat" }
layer { name: "fc" type: "Convolution" bottom: "cat" top: "fc"
  convolution_param { num_output: 5 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "mean" type: "Pooling" bottom: "fc" top: "mean" pooling_param { pool: AVE global_pooling: true } }
layer { name: "prob" type: "Softmax" bottom: "mean" top: "prob" }
"""
)
FOLDED = (
    INPUT
    + """
layer { name: "bn" type: "BatchNorm" bottom: "data" top: "bn" }
layer { name: "scale" type: "Scale" bottom: "bn" top: "bn" scale_param { bias_term: true } }
layer { name: "prelu" type: "PReLU" bottom: "bn" top: "prelu" }
layer { name: "out" type: "Deconvolution" bottom: "prelu" top: "out"
  convolution_param { num_output: 3 kernel_size: 4 stride: 2 pad: 1 weight_filler { type: "xavier" } } }
"""
)
Log = Callable[[Any], None]


def made(folder: Path, text: str, planned: bool = True) -> Any:
    """A net of this text with its weights; planned: whether whole passes may run as a network."""
    path, weights = folder / f"{abs(hash(text))}.prototxt", folder / f"{abs(hash(text))}.caffemodel"
    path.write_text(text)
    if not weights.exists():
        caffe.set_random_seed(1)
        first = caffe.Net(str(path), caffe.TEST)
        for name, blobs in first.params.items():
            for blob in blobs:
                blob.data[...] = np.abs(blob.data + 0.3) if name == "bn" else blob.data + 0.05
        first.save(str(weights))
    net = caffe.Net(str(path), str(weights), caffe.TEST)
    net._passes._possible &= planned
    return fed(net, 0)


def fed(net: Any, seed: int) -> Any:
    for name in net.inputs:
        net.blobs[name].data[...] = np.random.RandomState(seed).randn(*net.blobs[name].data.shape)
    return net


def runs_planned(net: Any) -> bool:
    return net._passes._network is not None


def all_blobs(net: Any) -> List[Any]:
    return [blob.data for blob in net.blobs.values()]


def assert_same(found: List[Any], expected: List[Any]) -> None:
    assert len(found) == len(expected)
    for number, (one, other) in enumerate(zip(found, expected)):
        assert one.shape == other.shape, number
        assert np.abs(one - other).max(initial=0) <= WHOLE_NETWORK * np.abs(other).max(initial=1), number


# Programs

PROGRAMS: List[Callable[[Any, Log], None]] = []


def program(function: Callable[[Any, Log], None]) -> Callable[[Any, Log], None]:
    PROGRAMS.append(function)
    return function


@program
def reads_after_the_input_has_changed(net: Any, log: Log) -> None:
    net.forward()
    net.blobs["data"].data[...] = 7
    log([net.blobs[name].data for name in ("pool", "cat", "a", "data")])


@program
def holds_an_input(net: Any, log: Log) -> None:
    data = net.blobs["data"].data
    for value in (1, 2):
        log(net.forward()["prob"])
        data[0] = value
        log(net.blobs["cat"].data)


@program
def holds_a_blob(net: Any, log: Log) -> None:
    part = net.blobs["norm"].data[0, 2]
    for seed in range(3):
        fed(net, seed).forward()
        log(part)


@program
def holds_an_output(net: Any, log: Log) -> None:
    out = net.forward()
    log(out["prob"])
    fed(net, 1).forward()
    log(out["prob"])


@program
def asks_for_blobs(net: Any, log: Log) -> None:
    splits = [name for name in net.blobs if "split" in name]
    for seed in range(3):
        log(list(fed(net, seed).forward(blobs=["conv", *splits]).values()))


@program
def reads_the_same_blob_each_time(net: Any, log: Log) -> None:
    for seed in range(5):
        log([fed(net, seed).forward()["prob"], net.blobs["cat"].data])


@program
def changes_a_parameter_that_it_asked_for(net: Any, log: Log) -> None:
    net.forward()
    net.params["conv"][0].data[...] *= 2
    log(all_blobs(net))
    for _ in range(4):
        log(net.forward()["prob"])
    log(all_blobs(net))


@program
def changes_a_parameter_that_it_holds(net: Any, log: Log) -> None:
    held = net.params["conv"][0].data, net.params["a"][0].data[1:2], net.params["fc"][1].data
    for _ in range(3):
        log(net.forward()["prob"])
    for number in range(9):
        held[number % 3][...] += 1 + number
        log(net.blobs["conv"].data if number % 2 else all_blobs(net))
        for _ in range(2):
            log(net.forward()["prob"])


@program
def changes_parameters_of_layers(net: Any, log: Log) -> None:
    net.forward()
    net.layers[list(net._layer_names).index("b")].blobs[1].data[...] = 1
    log(net.forward()["prob"])
    net.layer_dict["a"].blobs[0].data[...] = 0.1
    log([net.blobs["a"].data, net.forward()["prob"]])


@program
def changes_a_parameter_and_changes_it_back(net: Any, log: Log) -> None:
    net.forward()
    before = net.params["fc"][0].data.copy()
    net.params["fc"][0].data[...] = 0
    net.params["fc"][0].data[...] = before
    log(net.forward()["prob"])
    net.params["fc"][0].data[...] = 0
    log(net.forward()["prob"])
    net.params["fc"][0].data[...] = before
    for _ in range(6):
        log(net.forward()["prob"])


@program
def changes_parameters_after_every_pass(net: Any, log: Log) -> None:
    for seed in range(8):
        log(fed(net, seed).forward()["prob"])
        net.params["fc"][0].data[...] -= 0.01 * seed


@program
def takes_other_weights(net: Any, log: Log) -> None:
    weights = {name: [blob.data.copy() for blob in blobs] for name, blobs in net.params.items()}
    net.save(net.path)
    net.params["conv"][0].data[...] = 0.1
    net.forward()
    net.copy_from(net.path)
    log([net.blobs["conv"].data, net.blobs["cat"].data, net.forward()["prob"]])
    assert_same([blob.data for blob in net.params["a"]], weights["a"])


@program
def writes_a_blob_and_goes_on_from_there(net: Any, log: Log) -> None:
    net.forward()
    net.blobs["pool"].data[...] = 0.3
    log([net.forward(start="a")["prob"], *all_blobs(net)])
    log(net.forward()["prob"])


@program
def writes_a_blob_and_reads_others(net: Any, log: Log) -> None:
    net.forward()
    net.blobs["norm"].data[...] = 0
    log(all_blobs(net))


@program
def stops_early(net: Any, log: Log) -> None:
    net.forward()
    fed(net, 3).forward(end="pool")
    log(all_blobs(net))


@program
def reshapes_inputs(net: Any, log: Log) -> None:
    for size in (10, 17, 8, 17):
        net.blobs["data"].reshape(1, 3, size, size + 1)
        net.reshape()
        log(all_blobs(net))
        log([fed(net, size).forward()["prob"], net.blobs["cat"].data])


@program
def reshapes_an_input_after_a_pass(net: Any, log: Log) -> None:
    net.forward()
    net.blobs["data"].reshape(1, 3, 8, 8)
    log(net.blobs["cat"].data)
    net.reshape()
    log([net.blobs["cat"].data, net.blobs["pool"].data])


@program
def makes_an_input_larger_after_a_pass(net: Any, log: Log) -> None:
    net.forward()
    net.blobs["data"].reshape(3, 3, 12, 12)
    net.reshape()
    log(net.blobs["fc"].data)


@program
def reshapes_another_blob(net: Any, log: Log) -> None:
    net.forward()
    net.blobs["pool"].reshape(1, 8, 2, 2)
    log(net.blobs["pool"].data)
    log([net.forward()["prob"], *all_blobs(net)])


@program
def goes_backwards(net: Any, log: Log) -> None:
    net.forward()
    net.forward()
    net.params["conv"][0].data[...] *= 1.5
    net.blobs["prob"].diff[...] = np.random.RandomState(1).randn(*net.blobs["prob"].shape)
    log(net.blobs["fc"].data)
    net.blobs["norm"].data[...] = 5
    net.backward()
    log([blob.diff for blob in net.blobs.values()])
    log([blob.diff for blobs in net.params.values() for blob in blobs])
    log(all_blobs(net))


@program
def keeps_a_blob_of_a_net_that_is_gone(net: Any, log: Log) -> None:
    net.forward()
    blobs = net.blobs["a"], net.blobs["b"]
    del net
    log([blob.data for blob in blobs])


@program
def does_anything(net: Any, log: Log) -> None:
    for seed in range(6):
        random, held = np.random.RandomState(seed), []
        for _ in range(40):
            draw, size = random.randint(12), random.randn()
            blob = list(net.blobs)[random.randint(len(net.blobs))]
            params = net.params[list(net.params)[random.randint(len(net.params))]]
            if draw < 4:
                log(net.forward()["prob"])
            elif draw < 6:
                log(net.blobs[blob].data)
            elif draw == 6:
                params[random.randint(2)].data[...] += 0.05 * size
            elif draw == 7:
                fed(net, random.randint(100))
            elif draw == 8:
                held.append(net.blobs[blob].data if size > 0 else params[0].data)
            elif draw == 9 and held:
                held.pop()[...] = 0.2 * size
            elif draw == 10 and size > 1.5:
                log(net.forward(start="cat")["prob"])
            elif draw == 11:
                log(all_blobs(net))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("unfused", [1, 16])
def test_a_planned_net_is_like_one_that_runs_by_layers(
    program: Any, unfused: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusing, "_UNFUSED_RUNS", unfused)
    logs: Dict[bool, List[Any]] = {}
    for planned in (True, False):
        logged = logs.setdefault(planned, [])

        def log(values: Any, logged: List[Any] = logged) -> None:
            logged.extend(one.copy() for one in (values if isinstance(values, list) else [values]))

        net = made(tmp_path, INCEPTION, planned)
        object.__setattr__(net, "path", str(tmp_path / "saved.caffemodel"))
        program(net, log)
    assert logs[True]
    assert_same(logs[True], logs[False])


def test_statistics_and_slopes_are_parameters_too(tmp_path: Path) -> None:
    nets = [made(tmp_path, FOLDED, planned) for planned in (True, False)]
    logs: List[List[Any]] = [[], []]
    for net, log in zip(nets, logs):
        for name, number, value in (("bn", 0, 0.7), ("bn", 2, 2), ("scale", 1, 0.5), ("prelu", 0, -1), ("out", 0, 1)):
            log.append(net.forward()["out"].copy())
            net.params[name][number].data[...] = value
        log.extend(net.forward()["out"].copy() for _ in range(70))
        log.extend(all_blobs(net))
    assert runs_planned(nets[0])
    assert not runs_planned(nets[1])
    assert_same(*logs)


# How passes run


def test_whole_passes_run_as_a_network_until_a_parameter_changes(tmp_path: Path) -> None:
    net = made(tmp_path, INCEPTION)
    net.forward()
    assert runs_planned(net)
    assert net.params["fc"][0].data.shape == (5, 10, 1, 1)
    net.forward()
    assert runs_planned(net), "to look at a parameter changes nothing"
    net.params["fc"][0].data[...] = 0
    net.forward()
    assert not runs_planned(net)
    net.forward()
    assert runs_planned(net)


def test_a_net_whose_parameters_change_all_the_time_is_not_planned_all_the_time(tmp_path: Path) -> None:
    net = made(tmp_path, INCEPTION)
    planned = []
    for number in range(20):
        net.forward()
        planned.append(runs_planned(net))
        net.params["fc"][0].data[...] = number
    assert planned == [True, *[False] * 19]


def test_blobs_that_nobody_reads_take_no_memory(tmp_path: Path) -> None:
    net = made(tmp_path, INCEPTION)
    net.forward()
    assert net._net.blobs["norm"]._data is None
    _ = net.blobs["norm"].data
    assert net._net.blobs["norm"]._data is not None
    assert net._net.blobs["a"]._data is None


def test_a_net_that_runs_often_for_its_outputs_gets_fused_operators(tmp_path: Path) -> None:
    net = made(tmp_path, FOLDED)
    first = net.forward()["out"].copy()
    for _ in range(fusing._UNFUSED_RUNS):
        assert_same([net.forward()["out"]], [first])
    inner = net._passes._network
    assert inner._fused is not None
    assert len(inner._fused.pair.predict_net.op) < len(inner._pair.predict_net.op)
    assert_same(all_blobs(net), _all_by_layers(tmp_path, FOLDED))


def test_fused_operators_that_give_other_values_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from optimize.engines import accuracy

    monkeypatch.setattr(accuracy, "difference", lambda wanted, actual: 1.0)
    net = made(tmp_path, FOLDED)
    for _ in range(fusing._UNFUSED_RUNS + 1):
        net.forward()
    assert runs_planned(net)
    assert net._passes._network._fused is None


def _all_by_layers(folder: Path, text: str) -> List[Any]:
    net = made(folder, text, planned=False)
    net.forward()
    return all_blobs(net)


@pytest.mark.parametrize(
    "layers",
    [
        'layer { name: "p" type: "Power" bottom: "data" top: "data" power_param { scale: 2 } }',
        'layer { name: "b" type: "BatchNorm" bottom: "data" top: "b" batch_norm_param { use_global_stats: false } }',
        'layer { name: "p" type: "Reduction" bottom: "data" top: "p" loss_weight: 1 }',
        'force_backward: true layer { name: "p" type: "Power" bottom: "data" top: "p" }',
        'layer { name: "p" type: "Power" bottom: "data" top: "p" } layer{ name: "p" type: "ReLU" bottom: "p" top: "q"}',
        'layer { name: "b" type: "BatchNorm" bottom: "data" top: "b" phase: TRAIN }',
    ],
    ids=[
        "writes its input",
        "changes statistics",
        "loss",
        "force_backward",
        "two layers of one name",
        "phase of its own",
    ],
)
def test_what_is_no_pure_function_runs_layer_by_layer(layers: str, tmp_path: Path) -> None:
    net = made(tmp_path, INPUT + layers)
    for _ in range(2):
        net.forward()
        assert not runs_planned(net)


def test_a_recurrent_net_runs_layer_by_layer(tmp_path: Path) -> None:
    text = (
        'layer { name: "x" type: "Input" top: "x" top: "c" input_param { shape { dim: 2 dim: 1 dim: 3 }'
        ' shape { dim: 2 dim: 1 } } } layer { name: "l" type: "LSTM" bottom: "x" bottom: "c" top: "l"'
        ' recurrent_param { num_output: 2 weight_filler { type: "xavier" } } }'
    )
    net = made(tmp_path, text)
    net.blobs["c"].data[...] = 1
    first = net.forward()["l"].copy()
    assert not np.allclose(net.forward()["l"], first)


def test_shared_parameters_lead_back_to_layers(tmp_path: Path) -> None:
    one, other = made(tmp_path, INCEPTION), made(tmp_path, INCEPTION)
    one.forward()
    other.forward()
    other.share_with(one)
    one.params["fc"][0].data[...] = 0
    expected = [np.full((2, 5, 1, 1), 0.2, np.float32)]
    one.params["fc"][1].data[...] = 0
    for net in (one, other):
        assert_same([net.forward()["prob"]], expected)
        assert not runs_planned(net)


def test_the_tops_of_a_split_are_one_with_what_it_splits(tmp_path: Path) -> None:
    for planned in (True, False):
        net = made(tmp_path, INCEPTION, planned)
        net.forward()
        first, second = (blob for name, blob in net.blobs.items() if "split" in name)
        net.blobs["pool"].data[...] = 4
        assert (first.data == 4).all()
        first.data[...] = 5
        assert (second.data == 5).all()
        net.forward(end="pool")
        np.testing.assert_array_equal(second.data, net.blobs["pool"].data)
