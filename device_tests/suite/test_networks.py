"""Whole networks: small random ones from the host, and real ones as bundles, which also start as programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import numpy as np

from device_tests.suite.tolerance import assert_network_close
from runtime_arm import Pair, Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.bundle import open_bundle


def read_sample(path: Path) -> List[Dict[str, Array]]:
    """The inputs and the outputs in a sample."""
    with np.load(path) as sample:
        return [
            {key[len(prefix) :]: sample[key] for key in sample.files if key.startswith(prefix)}
            for prefix in ("in_", "out_")
        ]


def test_a_small_network_gives_what_the_reference_kernels_gave_on_the_host(network: Path) -> None:
    inputs, expected = read_sample(network / "sample.npz")
    with Predictor(Pair.load(network)) as predictor:
        for _ in range(2):
            outputs = predictor.run(inputs)
            for name, wanted in expected.items():
                assert_network_close(outputs[name], wanted, what=name)


def test_every_thread_count_gives_the_same_answer(network: Path) -> None:
    inputs, expected = read_sample(network / "sample.npz")
    for threads in (1, 2, 3):
        with Predictor(Pair.load(network), threads=threads) as predictor:
            outputs = predictor.run(inputs)
        for name, wanted in expected.items():
            assert_network_close(outputs[name], wanted, what=f"{name} with {threads} threads")


def test_a_bundle_gives_its_expected_outputs(bundle: Path) -> None:
    content = open_bundle(bundle)
    with Predictor(content.pair, threads=1) as predictor:
        outputs = predictor.run(content.sample_inputs)
    for name, wanted in content.sample_outputs.items():
        assert_network_close(outputs[name], wanted, relative=content.tolerance, what=name)
        assert outputs[name].argmax() == wanted.argmax()


def test_a_bundle_starts_cold_and_tests_itself(bundle: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", str(bundle), "--self-test", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passed"]
    assert list(tmp_path.iterdir()) == []
