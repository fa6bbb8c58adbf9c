"""Every real network that can be exported computes the same when optimised; reordering alone changes no bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

pytest.importorskip("onnx", reason="exporting needs onnx")

from exporter import export
from exporter.bundle.random_inputs import random_inputs
from optimize import Report, optimize, pipeline
from optimize.rewriting.program import Program
from optimize.rewriting.report import Recorder
from optimize.rewriting.rewrite import run_passes
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import assert_same_network, assert_same_numbers

# The files of each network, and the shape of its input if that is open.
MODELS: List[Tuple[str, Any]] = [
    ("caffe/mtcnn/det1.prototxt caffe/mtcnn/det1.caffemodel", (1, 3, 30, 40)),
    ("caffe/mtcnn/det2.prototxt caffe/mtcnn/det2.caffemodel", (2, 3, 24, 24)),
    ("caffe/mtcnn/det3.prototxt caffe/mtcnn/det3.caffemodel", (2, 3, 48, 48)),
    ("caffe/ultraface/RFB-320.prototxt caffe/ultraface/RFB-320.caffemodel", None),
    ("caffe/ultraface/slim-320.prototxt caffe/ultraface/slim-320.caffemodel", None),
    ("caffe/lenet_armnn/lenet.prototxt caffe/lenet_armnn/lenet_iter_9000.caffemodel", (2, 1, 28, 28)),
    (
        "caffe/squeezenet_v1.0_deepcompressed/SqueezeNet_deploy.prototxt "
        "caffe/squeezenet_v1.0_deepcompressed/SqueezeNet_v1.0_decoded.caffemodel",
        (1, 3, 227, 227),
    ),
    ("caffe2/superres_from_onnx/init_net.pb caffe2/superres_from_onnx/predict_net.pb", (1, 1, 224, 224)),
    (
        "caffe2/squeezenet_v1.1_reconstructed/squeeze_init_net.pb "
        "caffe2/squeezenet_v1.1_reconstructed/squeezeNetPredict.pb",
        (1, 3, 227, 227),
    ),
    ("onnx/fastestdet/FastestDet.onnx", None),
    ("onnx/mnist_8/mnist.onnx", None),
    ("onnx/ppocr_mobile_v1.1_det/ch_mobile_v1.1_det.onnx", (1, 3, 64, 96)),
    ("onnx/shufflenet_v2_12_int8/shufflenet-v2-12-int8.onnx", None),
    ("onnx/silero_vad/silero_vad_16k_op15.onnx", None),
    ("onnx/squeezenet_v1.1/squeezenet_v1.1.onnx", (1, 3, 227, 227)),
    ("onnx/super_resolution_10/model.onnx", (1, 1, 224, 224)),
    ("onnx/ultraface/version-RFB-320_simplified.onnx", None),
    ("onnx/yunet/yunet_n_320_320.onnx", None),
    ("tflite/coco_ssd_mobilenet_v1_quant/coco_ssd_mobilenet_v1_1.0_quant_2018_06_29_no_metadata.tflite", None),
    ("tflite/deeplabv3_257_float/deeplabv3.tflite", None),
    ("tflite/hello_world/hello_world_float.tflite", (3, 1)),
    ("tflite/hello_world/hello_world_int8.tflite", (3, 1)),
    ("tflite/mediapipe_face_detection_short_range/face_detection_short_range.tflite", None),
    ("tflite/mediapipe_selfie_segmentation/selfie_segmentation.tflite", None),
    ("tflite/mlperf_tiny_ad_autoencoder/ad01_fp32.tflite", (2, 640)),
    ("tflite/mlperf_tiny_ad_autoencoder/ad01_int8.tflite", (2, 640)),
    ("tflite/mlperf_tiny_ic_resnet8/pretrainedResnet.tflite", (2, 32, 32, 3)),
    ("tflite/mlperf_tiny_ic_resnet8/pretrainedResnet_quant.tflite", (2, 32, 32, 3)),
    ("tflite/mlperf_tiny_kws_dscnn/kws_ref_model.tflite", (2, 49, 10, 1)),
    ("tflite/mlperf_tiny_kws_dscnn/kws_ref_model_float32.tflite", (2, 49, 10, 1)),
    ("tflite/mlperf_tiny_vww_mobilenet/vww_96_float.tflite", (2, 96, 96, 3)),
    ("tflite/mlperf_tiny_vww_mobilenet/vww_96_int8.tflite", (2, 96, 96, 3)),
    ("tflite/mobilenet_v1_0.25_224_float/mobilenet_v1_0.25_224_1_default_1.tflite", None),
    ("tflite/mobilenet_v1_0.25_224_quant/mobilenet_v1_0.25_224_quant.tflite", None),
    ("tflite/mobilenet_v2_1.0_224_quant/mobilenet_v2_1.0_224_quant.tflite", None),
    ("tflite/movenet_lightning_ptq/movenet_single_pose_lightning_ptq.tflite", None),
    ("tflite/tf2_mobilenet_v2_1.0_224_ptq/tf2_mobilenet_v2_1.0_224_ptq.tflite", None),
]


def loaded(shared: Path, files: str, shape: Any) -> Tuple[Pair, Dict[str, Any], Dict[str, np.ndarray]]:
    """The pair, the shape of its input if that is open, and a feed: for ONNX, the recorded inputs."""
    if "tflite" in files:
        pytest.importorskip("tflite", reason="exporting TFLite needs the package tflite")
    pair = export(*(shared / "models" / name for name in files.split()))
    shapes = {} if shape is None else {pair.inputs[0].name: shape}
    pair = pair.replace(
        inputs=[info if info.dtype else type(info)(info.name, info.shape, "float32") for info in pair.inputs]
    )
    if files.startswith("onnx/"):
        return pair, shapes, recorded_inputs(shared, files[len("onnx/") : -len(".onnx")], pair)
    return pair, shapes, random_inputs(pair, shapes=shapes)


def recorded_inputs(shared: Path, name: str, pair: Pair) -> Dict[str, np.ndarray]:
    """The inputs for which the network's outputs were recorded; one sample if the batch size is 1."""
    reference = shared / f"models/references/onnx_{name.replace('/', '__')}.npz"
    if not reference.is_file():
        reference = shared / f"models/references/onnx_{name.split('/')[0]}.npz"
    arrays = np.load(reference)
    feeds = {}
    for info in pair.inputs:
        array = arrays[f"in_{info.name}" if f"in_{info.name}" in arrays else "input"]
        feeds[info.name] = array[:1] if info.shape and info.shape[0] == 1 else array
    return feeds


@pytest.mark.parametrize(("files", "shape"), MODELS, ids=[Path(files.split()[-1]).stem for files, _ in MODELS])
def test_it_computes_the_same(shared: Path, files: str, shape: Any) -> None:
    pair, shapes, feed = loaded(shared, files, shape)
    result = optimize(pair, shapes=shapes)
    assert len(result.predict_net.op) <= len(pair.predict_net.op)
    assert_same_network(pair, result, feed)
    report = Report()
    assert optimize(result, shapes=shapes, report=report) == result, report


@pytest.mark.parametrize(("files", "shape"), MODELS, ids=[Path(files.split()[-1]).stem for files, _ in MODELS])
def test_reordering_to_save_memory_changes_no_bit(shared: Path, files: str, shape: Any) -> None:
    pair, _, feed = loaded(shared, files, shape)
    reordered = run_passes(Program.of(pair), [pipeline.REORDERING], Recorder()).pair(pair)
    assert_same_numbers(pair, reordered, feed)
