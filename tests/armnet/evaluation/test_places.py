"""The same examples answered by other runtimes, on targets and by a cluster."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

import armnet as package
from armnet.evaluation import on_target
from armnet.evaluation.on_target import OnTarget
from armnet.evaluation.place import LocalPlace
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import emulated
from runtime_arm.app.answer import Options
from tests.support.commands import Armnet
from tests.support.paths import DEMO, SHARED

HELD_BACK = DEMO / "held_back.npz"
DEAD = "tcp://127.0.0.1:1"


def places_of(outcome: Any) -> List[Any]:
    status, out, err = outcome
    assert status == 0, err
    found: List[Any] = json.loads(out)["places"]
    return found


def test_onnxruntime_gives_the_same_answers(armnet: Armnet, digits: Path) -> None:
    pytest.importorskip("onnxruntime", reason="it is what answers are compared with")
    words = ["evaluate", digits, HELD_BACK, "--against", "onnxruntime", "--model", DEMO / "digits.onnx"]
    here, there = places_of(armnet(*words, "--json", "--must", "agreement=1"))
    assert there["place"].startswith("onnxruntime ")
    assert there["metrics"] == {**here["metrics"], "agreement": 1.0}
    assert there["differing"] == []


def test_answers_that_differ_are_named(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    """A pair that was spoilt behind its model's back."""
    pytest.importorskip("onnxruntime", reason="it is what answers are compared with")
    pair = package.Pair.load(digits)
    at, conv = next((i, op) for i, op in enumerate(pair.predict_net.op) if op.type == "Conv")
    ops = list(pair.predict_net.op)
    ops[at] = conv.with_args(pads=[0, 0, 2, 2])
    pair.replace(predict_net=pair.predict_net.replace(op=tuple(ops))).save(tmp_path / "spoilt")
    words = ["evaluate", tmp_path / "spoilt", HELD_BACK, "--against", "onnxruntime", "--model", DEMO / "digits.onnx"]
    here, there = places_of(armnet(*words, "--json"))
    assert there["metrics"]["top1"] == 359 / 360
    assert here["metrics"]["top1"] < 0.99
    assert len(there["differing"]) >= 360 * (there["metrics"]["top1"] - here["metrics"]["top1"])
    assert there["metrics"]["agreement"] == pytest.approx(1 - len(there["differing"]) / 360)
    status, out, err = armnet(*words, "--must", "agreement=0.999")
    assert status == 1
    assert f"{len(there['differing'])} answers differ: {there['differing'][0]}, " in out
    assert "agreement is" in err


@pytest.mark.skipif(not (SHARED / "models").is_dir(), reason="real networks are not beside the project")
def test_a_tflite_model_against_its_own_runtime(armnet: Armnet, tmp_path: Path) -> None:
    pytest.importorskip("tflite", reason="exporting TFLite needs tflite")
    pytest.importorskip("ai_edge_litert", reason="it is what answers are compared with")
    (model,) = (SHARED / "models/tflite/mlperf_tiny_ic_resnet8").glob("*Resnet.tflite")
    images = np.random.default_rng(0).integers(0, 255, (4, 32, 32, 3)).astype(np.float32)
    np.savez(tmp_path / "data.npz", images=images, labels=np.arange(4))
    words = ["evaluate", model, tmp_path / "data.npz", "--against", "tflite", "--task", "classes", "--json"]
    assert places_of(armnet(*words))[1]["metrics"]["agreement"] == 1.0


@pytest.mark.parametrize("target", ["local", "emulated:arm64", "emulated:armhf"])
def test_a_target_gives_the_same_answers(armnet: Armnet, digits: Path, target: str) -> None:
    try:
        if target != "local":
            emulated(target.partition(":")[2])
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    here, there = places_of(armnet("evaluate", digits, HELD_BACK, "--on", target, "--count", 16, "--json"))
    assert there["place"] == target
    assert there["metrics"] == {**here["metrics"], "agreement": 1.0}
    assert there["examples"] == 16


def test_a_target_answers_in_several_turns_and_skips_what_is_damaged(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_target, "FEWEST", 2)
    monkeypatch.setattr(on_target, "MOST", 3)
    lines = [f"{DEMO / 'pictures' / f'digit_{n}.png'}\t{n}" for n in range(10)]
    np.save(tmp_path / "shape.npy", np.zeros((1, 3, 8, 8), np.float32))
    (tmp_path / "broken.png").write_bytes(b"no picture")
    (tmp_path / "list.tsv").write_text("\n".join([*lines[:5], "shape.npy\t0", "broken.png\t0", *lines[5:]]))
    with package.open(digits) as model:
        places = [LocalPlace(model, Options()), OnTarget("local", model, Options())]
        here, there = package.evaluate(model, tmp_path / "list.tsv", places=places).results
    assert there.findings == here.findings
    assert here.metrics["top1"] == 1.0
    assert set(there.skipped) == set(here.skipped) == {5, 6}
    assert "broken.png" in there.skipped[6]


@pytest.mark.skipif(not (SHARED / "models").is_dir(), reason="real networks are not beside the project")
def test_sounds_are_heard_on_targets_and_workers(armnet: Armnet, tmp_path: Path) -> None:
    """A net with a state: what one window leaves, the next one gets."""
    pytest.importorskip("distributed", reason="the cluster is Dask's")
    models = sorted((SHARED / "models/onnx/silero_vad").glob("*.onnx"))
    tone = (np.sin(np.arange(16000) / 20) * 8000).astype("<i2")
    for name, samples in (("tone", tone), ("silence", np.zeros(16000, "<i2"))):
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(samples.tobytes())
    (tmp_path / "sounds.csv").write_text("tone.wav,nothing\nsilence.wav,nothing\n")
    words = ["evaluate", models[0], tmp_path / "sounds.csv", "--on", "local", "--scheduler", "local:1", "--json"]
    workers, target = places_of(armnet(*words))
    assert workers["metrics"]["error_rate"] == target["metrics"]["error_rate"] == 0
    assert target["metrics"]["agreement"] == 1.0


def test_two_workers_of_dask_give_the_same_answers(armnet: Armnet, digits: Path) -> None:
    pytest.importorskip("distributed", reason="the cluster is Dask's")
    (place,) = places_of(armnet("evaluate", digits, HELD_BACK, "--scheduler", "local:2", "--json"))
    assert place["place"] == "local:2"
    assert place["metrics"] == {"top1": 359 / 360, "top5": 1.0}
    (here,) = places_of(armnet("evaluate", digits, HELD_BACK, "--json"))
    assert place["classes"] == here["classes"]


def test_a_cluster_that_is_there_is_sent_what_is_in_the_files(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the cluster is Dask's")
    pytest.importorskip("PIL", reason="pictures need Pillow")
    for n in range(10):
        (tmp_path / str(n)).mkdir()
        content = (DEMO / "pictures" / f"digit_{n}.png").read_bytes()
        (tmp_path / str(n) / "picture.png").write_bytes(content)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", dashboard_address=None
    ) as running:
        address = running.scheduler_address
        (place,) = places_of(armnet("evaluate", digits, tmp_path, "--scheduler", address, "--json"))
    assert address.startswith("tcp://127.0.0.1:")
    assert place["place"] == address
    assert place["metrics"]["top1"] == 1.0


class TestRefusals:
    """Each is one line."""

    def test_names_of_places(self, armnet: Armnet, digits: Path) -> None:
        words = ["evaluate", digits, HELD_BACK]
        for more, problem in (
            (["--against", "caffe"], "--against takes onnxruntime or tflite, got 'caffe'"),
            (["--against", "tflite"], "name it with --model"),
            (["--on", "toaster"], "no target 'toaster'"),
            (["--on", "ssh://127.0.0.1:1"], "Connection refused"),
            (["--scheduler", "nowhere"], "--scheduler takes an address such as tcp://host:8786"),
            (["--scheduler", "local:0"], "takes a number of processes"),
        ):
            status, out, err = armnet(*words, *more)
            assert (status, out) == (2, "")
            assert problem in err.splitlines()[-1]

    def test_a_scheduler_that_is_not_there(self, armnet: Armnet, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("distributed", reason="the cluster is Dask's")
        from armnet.evaluation import cluster

        monkeypatch.setattr(cluster, "PATIENCE", 0.5)
        status, out, err = armnet("evaluate", digits, HELD_BACK, "--scheduler", DEAD)
        assert (status, out) == (2, "")
        assert err.splitlines()[-1].startswith(f"armnet: --scheduler {DEAD}: Timed out")
