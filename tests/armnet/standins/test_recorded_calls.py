"""The stand-ins beside the real packages: the same scripts, on every network of the shared material."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List

import pytest

from tests.support.paths import SHARED
from tests.support.recorded_calls import compare_calls

SCRIPTS = Path(__file__).parent / "scripts"
# Sizes that the networks leave open, 1 elsewhere; the largest number of a picture.
SIZES: Dict[str, List[str]] = {
    "silero_vad_16k_op15": ["sequence=512", "sr=16000"],
    "yunet_n_320_320": ["scale=255"],
    "ch_mobile_v1.1_det": ["?=640"],
}


def models(pattern: str) -> List[Path]:
    return sorted((SHARED / "models").glob(pattern))


@pytest.mark.parametrize("path", models("onnx/*/*.onnx"), ids=lambda path: path.stem)
def test_onnxruntime(path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed to compare with")
    calls = compare_calls("onnxruntime", SCRIPTS / "onnx_networks.py", path, *SIZES.get(path.stem, []))
    assert len(calls) > 40
    assert sum(call.outcome == "error" for call in calls) >= 14


@pytest.mark.parametrize("path", models("tflite/*/*.tflite"), ids=lambda path: path.stem)
def test_litert(path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed to compare with")
    if path.stem == "selfie_segmentation":
        pytest.skip("LiteRT lacks MediaPipe's operator Convolution2DTransposeBias, which armnet has")
    calls = compare_calls("ai_edge_litert.interpreter", SCRIPTS / "tflite_networks.py", path)
    assert len(calls) > 40
    assert sum(call.outcome == "error" for call in calls) >= 20
