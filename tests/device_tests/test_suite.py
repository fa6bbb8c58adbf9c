"""The suite runs here as on devices and finds defects; its vectors cover every operator with a fast kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

import numpy as np
import pytest

from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.golden_cases import golden_cases
from device_tests.host.golden_cases.case import case
from device_tests.host.golden_vectors import golden_vectors
from device_tests.host.networks.random import random_network
from device_tests.host.suite_run import prepared_suite, run_suite
from device_tests.host.targets.factory import target_of
from device_tests.host.targets.target import DeviceError, Files
from device_tests.suite.tolerance import assert_network_close
from device_tests.suite.vectors import Vector, read_vectors, write_vectors
from runtime_arm.registry.schema import registered
from runtime_arm.registry.specs import QuantizedTensor


@pytest.fixture(scope="module")
def files() -> Iterator[Files]:
    with prepared_suite() as prepared:
        yield prepared


def test_the_suite_passes_here(files: Files) -> None:
    with target_of("local") as target:
        result = run_suite(target, files)
    assert result.failed == []
    assert result.passed > 300
    assert all(skip["reason"] for skip in result.skipped)
    assert result.identity["numpy"] == np.__version__


def test_the_suite_runs_the_kernels_of_devices_where_there_is_a_driver(files: Files) -> None:
    try:
        target = target_of("local", with_driver=True)
    except EmulationUnavailable as error:
        pytest.skip(f"no PoCL here: {error}")
    with target:
        result = run_suite(target, files, select="opencl and (Softmax or MaxPool)")
    assert (result.failed, result.skipped) == ([], [])
    assert result.passed >= 4


def test_a_wrong_operator_is_found_and_named(files: Files, tmp_path: Path) -> None:
    source = files["runtime_arm/operators/elementwise/activation.py"].read_text()
    (tmp_path / "activation.py").write_text(
        source + "\n\nimport numpy as np\n\n@relu.kernel('NUMPY')\ndef wrong(call):\n"
        "    return lambda: np.maximum(call.inputs[0], 1, out=call.outputs[0])\n"
    )
    with target_of("local") as target:
        changed = {**files, "runtime_arm/operators/elementwise/activation.py": tmp_path / "activation.py"}
        result = run_suite(target, changed, select="Relu")
    failed = {failure["test"].rpartition("[")[2].rstrip("]"): failure["reason"] for failure in result.failed}
    assert "Relu" in failed
    assert "Relu(" in failed["Relu"]
    assert "by NUMPY" in failed["Relu"]


def test_a_suite_that_cannot_start_says_why(files: Files, tmp_path: Path) -> None:
    (tmp_path / "identity.py").write_text("raise OSError('the card is worn out')\n")
    with target_of("local") as target, pytest.raises(DeviceError, match=r"local: OSError: the card is worn out"):
        run_suite(target, {**files, "runtime_arm/machine/identity.py": tmp_path / "identity.py"})


def test_progress_is_reported_while_the_suite_runs(files: Files) -> None:
    told = []
    with target_of("local") as target:
        result = run_suite(target, files, select="golden", progress=lambda done, total: told.append((done, total)))
    assert told[0] == (1, result.passed + len(result.skipped))
    assert told == sorted(told)


def test_a_selection_without_tests_is_an_error(files: Files) -> None:
    with target_of("local") as target:
        with pytest.raises(DeviceError, match="local: no test matches 'nothing_of_this_name'"):
            run_suite(target, files, select="nothing_of_this_name")
        with pytest.raises(DeviceError, match="local: ERROR: Wrong expression passed to '-k': a b"):
            run_suite(target, files, select="a b")


def test_a_device_without_pytest_says_what_to_install(files: Files, tmp_path: Path) -> None:
    (tmp_path / "pytest.py").write_text("raise ImportError\n")
    with target_of("local") as target, pytest.raises(DeviceError, match="local: the suite needs pytest: apt-get"):
        run_suite(target, {**files, "pytest.py": tmp_path / "pytest.py"})


def test_without_data_tests_are_skipped_with_the_reason(files: Files) -> None:
    bare = {name: path for name, path in files.items() if "/data/" not in name}
    with target_of("local") as target:
        result = run_suite(target, bare, select="(golden or small_network) and not opencl")
    assert result.passed == 0
    assert {skip["reason"] for skip in result.skipped} == {
        "Skipped: no golden vectors were prepared for this device",
        "Skipped: no networks/* was prepared for this device",
    }


def test_every_operator_with_a_fast_kernel_has_a_golden_case() -> None:
    covered = {(one.op.domain, one.op.type) for one in golden_cases()}
    missing = [
        f"{schema.domain} {schema.type}"
        for schema in registered()
        if schema.kernels and (schema.domain, schema.type) not in covered
    ]
    assert missing == [], "add a case to device_tests/host/golden_cases/"


def test_cases_are_the_same_each_time() -> None:
    for one, other in zip(golden_cases(), golden_cases()):
        assert one.op == other.op
        for x, y in zip(one.inputs, other.inputs):
            np.testing.assert_array_equal(
                x.values if isinstance(x, QuantizedTensor) else x, y.values if isinstance(y, QuantizedTensor) else y
            )


def test_vectors_survive_a_round_trip_through_a_file(tmp_path: Path) -> None:
    (op, inputs, constants), *_ = case("Int8Add", "q 2x3", "q 2x3", Y_scale=0.5, Y_zero_point=3)
    odd = [np.float32(2), np.zeros((0, 3), np.int8), None, np.array([True]), np.ones((2, 2), np.float16)]
    written = [
        Vector(op, inputs, constants, [QuantizedTensor(np.ones(2, np.uint8), 0.5, 3)]),
        Vector(op, [np.asarray(x) if x is not None else None for x in odd], [0, 3], [np.arange(3)]),
    ]
    write_vectors(tmp_path / "vectors.pb", written)
    read = read_vectors(tmp_path / "vectors.pb")
    assert [vector.constants for vector in read] == [constants, [0, 3]]
    assert read[0].inputs[0].scale == inputs[0].scale
    assert read[0].outputs[0].zero_point == 3
    assert [None if x is None else (x.shape, x.dtype.name) for x in read[1].inputs] == [
        ((), "float32"),
        ((0, 3), "int8"),
        None,
        ((1,), "bool"),
        ((2, 2), "float16"),
    ]
    assert read[1].terms == 4


def test_vectors_are_finite_where_their_operands_are() -> None:
    for vector in golden_vectors():
        arrays = [x for x in vector.inputs if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
        if all(np.isfinite(x).all() for x in arrays):
            for y in vector.outputs:
                floats = not isinstance(y, QuantizedTensor) and y.dtype.kind == "f"
                assert not floats or np.isfinite(y).all(), vector.op.signature()


def test_random_networks_are_valid_and_the_same_each_time() -> None:
    onnx = pytest.importorskip("onnx", reason="networks are built as ONNX models")
    for seed in range(20):
        model = random_network(seed)
        onnx.checker.check_model(model)
        assert model.SerializeToString() == random_network(seed).SerializeToString()


def test_the_tolerance_of_networks_refuses_other_shapes_dtypes_and_values() -> None:
    y = np.array([1, -2], np.float32)
    assert_network_close(y + np.float32(1e-4), y)
    for wrong in (y[:1], y.astype(np.float64), y + np.float32(1e-3), y * np.float32(np.nan)):
        with pytest.raises(AssertionError):
            assert_network_close(wrong, y)
