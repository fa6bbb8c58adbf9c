"""The models that are changed: small ones of every format, in groups that are chosen equally often."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple

import numpy as np

from device_tests.host.networks.random import random_network
from exporter import export
from exporter.bundle.pack import pack
from exporter.bundle.random_inputs import random_inputs
from exporter.caffe.prototxt import message_class
from exporter.to_onnx.export import to_onnx
from exporter.to_tflite.export import to_tflite
from optimize import optimize, quantize
from runtime_arm.errors import ArmnetError
from runtime_arm.pair.archive import MANIFEST, PAIR_FOLDER
from runtime_arm.pair.pair import Pair
from tests.exporter.tflite.cases_layout import CASES
from tests.exporter.tflite.test_control import counting, looping
from tests.support.onnx_nodes import node_tests

LARGEST = 1 << 17  # bytes of the files of a model of a folder
NETWORKS = 3  # random ones, in each format
SUFFIXES = (".onnx", ".tflite", ".prototxt")
PROTOTXT = """
    name: "small"
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
    layer { name: "c" type: "Convolution" bottom: "x" top: "c"
        convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
    layer { name: "r" type: "ReLU" bottom: "c" top: "c" }
    layer { name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
    layer { name: "n" type: "LRN" bottom: "p" top: "n" lrn_param { local_size: 3 alpha: 0.1 beta: 0.75 } }
    layer { name: "h" type: "Slice" bottom: "n" top: "h1" top: "h2" slice_param { axis: 1 slice_point: 1 } }
    layer { name: "j" type: "Concat" bottom: "h2" bottom: "h1" top: "j" concat_param { axis: 1 } }
    layer { name: "e" type: "Eltwise" bottom: "j" bottom: "n" top: "e"
        eltwise_param { operation: SUM coeff: 1 coeff: -1 } }
    layer { name: "w" type: "Power" bottom: "e" top: "w" power_param { power: 2 scale: 0.5 shift: 1 } }
    layer { name: "o" type: "Permute" bottom: "w" top: "o" permute_param { order: 0 order: 2 order: 3 order: 1 } }
    layer { name: "a" type: "Reshape" bottom: "o" top: "a" reshape_param { shape { dim: 0 dim: -1 dim: 8 } } }
    layer { name: "f" type: "InnerProduct" bottom: "a" top: "f" inner_product_param { num_output: 5 } }
    layer { name: "s" type: "Softmax" bottom: "f" top: "s" }
"""


class Model(NamedTuple):
    """The files of one model, by name, and how they are opened: as a source of ``export``, a pair or a bundle."""

    name: str
    kind: str
    files: Dict[str, bytes]


Groups = List[List[Model]]


def groups_made(folder: Path) -> Groups:
    """Small models of every format, a group each; ``folder`` holds files meanwhile."""
    networks = [random_network(seed) for seed in range(NETWORKS)]
    pairs = [export(network) for network in networks]
    integers = [quantize(pair, [random_inputs(pair)], activations="int8") for pair in pairs[:2]]
    variants = {
        **{f"random_{at}": pair for at, pair in enumerate(pairs)},
        **{f"optimised_{at}": optimize(pair) for at, pair in enumerate(pairs)},
        **{f"integers_{at}": pair for at, pair in enumerate(integers)},
        "packed": quantize(pairs[0], weights="int4"),
        "loop": _exported(looping(), folder),
        "variable": _exported(counting(), folder),
    }
    saved = {name: _saved(pair, folder / name) for name, pair in variants.items()}
    onnx = [_source(f"random_{at}.onnx", network.SerializeToString()) for at, network in enumerate(networks)]
    return [
        [*onnx, *_written("onnx", integers, lambda pair: to_onnx(pair).SerializeToString())],
        [Model(f"{name}.pair", "pair", files) for name, files in saved.items()],
        [Model(f"{name}.pb", "source", _only(files, ".pb")) for name, files in saved.items()],
        list(_written("tflite", [*pairs, *integers], to_tflite)),
        list(_tflite_cases()),
        [Model("small.caffe", "source", {"net.prototxt": PROTOTXT.encode(), "net.caffemodel": caffemodel()})],
        [_bundle("random_0.pyz", pairs[0], folder), _bundle("integers_0.pyz", integers[0], folder)],
    ]


def node_tests_of_onnx() -> List[Model]:
    """The models of ONNX's own suite, of one operator each; making them takes ten seconds."""
    return [_source(f"{case.name}.onnx", case.model.SerializeToString()) for case in node_tests()]


def _source(name: str, content: bytes) -> Model:
    """A model of one file; only the suffix of its name is kept."""
    return Model(name, "source", {f"model{Path(name).suffix}": content})


def _only(files: Dict[str, bytes], suffix: str) -> Dict[str, bytes]:
    return {name: content for name, content in files.items() if name.endswith(suffix)}


def _saved(pair: Pair, place: Path) -> Dict[str, bytes]:
    pair.save(place)
    return {path.name: path.read_bytes() for path in sorted(place.iterdir())}


def _exported(content: bytes, folder: Path) -> Pair:
    path = folder / "model.tflite"
    path.write_bytes(content)
    return export(path)


def _written(suffix: str, pairs: List[Pair], write: Callable[[Pair], bytes]) -> Iterator[Model]:
    for at, pair in enumerate(pairs):
        try:
            yield _source(f"written_{at}.{suffix}", write(pair))
        except ArmnetError:  # the format lacks an operator
            continue


def _tflite_cases() -> Iterator[Model]:
    """Models of one operator, a branch, a loop, variables."""
    makers: Dict[str, Callable[[], bytes]] = {"looping": looping, "counting": counting}
    makers.update({name: lambda make=make: make()[0] for name, make in CASES.items()})  # type: ignore[misc]
    for name, make in makers.items():
        yield _source(f"{name}.tflite", make())


def _bundle(name: str, pair: Pair, folder: Path) -> Model:
    """A bundle of the pair without the runtime, which is never started here."""
    pack(pair, folder / name)
    with zipfile.ZipFile(folder / name) as archive:
        parts = {part: archive.read(part) for part in archive.namelist() if part.startswith(f"{PAIR_FOLDER}/")}
        parts[MANIFEST] = archive.read(MANIFEST)
    return Model(name, "bundle", parts)


def caffemodel() -> bytes:
    """Weights for the prototxt."""
    rng, net = np.random.default_rng(0), message_class("NetParameter")(name="small")
    for name, *shapes in (("c", (4, 3, 3, 3), (4,)), ("f", (5, 64), (5,))):
        layer = net.layer.add(name=name, type="Convolution" if name == "c" else "InnerProduct")
        for shape in shapes:
            blob = layer.blobs.add()
            blob.shape.dim.extend(shape)
            blob.data.extend(rng.standard_normal(int(np.prod(shape))).tolist())
    return bytes(net.SerializeToString())


def models_below(folder: Path) -> List[Model]:
    """The small model files below a folder."""
    models = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        files = [path, *([path.with_suffix(".caffemodel")] if path.suffix == ".prototxt" else [])]
        if all(file.is_file() for file in files) and sum(file.stat().st_size for file in files) <= LARGEST:
            content = {file.name: file.read_bytes() for file in files}
            models.append(Model(str(path.relative_to(folder)), "source", content))
    return models
