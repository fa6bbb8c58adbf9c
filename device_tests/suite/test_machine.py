"""The machine: its BLAS, its memory limits, its files, and the modules that starting imports."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runtime_arm
from device_tests.suite.conftest import prepared
from device_tests.suite.tolerance import assert_close
from runtime_arm import Pair, Predictor
from runtime_arm.errors import ArmnetError, ResourceError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.machine import blas
from runtime_arm.machine import identity as machine
from runtime_arm.machine.memory import memory_limit
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.planning.arena import allocate

PROGRAM = """
import sys
from runtime_arm import load
import numpy as np
with load(sys.argv[1], threads=1) as predictor:
    predictor.run({info.name: info.example() for info in predictor.inputs})
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize("n", [1, 3, 4, 8, 17, 64, 129])
def test_blas_multiplies_matrices_of_every_size(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((n, 33), (33, n + 1)))
    exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    magnitude = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    for left, right in ((a, b), (np.asfortranarray(a), b), (a, np.asfortranarray(b))):
        assert_close(left @ right, exact, terms=33, magnitude=magnitude, what=f"{n}x33 times 33x{n + 1}")


def test_blas_threads_are_set_for_a_run_and_restored() -> None:
    library = blas.loaded()
    if library is None:
        pytest.skip("NumPy's BLAS here is not OpenBLAS")
    before = library.get_threads()
    with blas.Threads(1):
        assert library.get_threads() == 1
    assert library.get_threads() == before


def test_the_machine_is_identified() -> None:
    identity = machine.identity()
    assert identity["numpy"] == np.__version__
    assert identity["cpu"]
    assert identity["memory_nbytes"] > 1 << 26
    json.dumps([identity, machine.condition()])


def test_more_memory_than_the_machine_has_is_refused() -> None:
    elements = memory_limit() // 4 + 1
    net = NetDef("large", (OperatorDef.of("ConstantFill", [], ["y"], shape=[elements]),))
    with pytest.raises(ResourceError, match=r"ConstantFill\(\) -> y.*bytes"):
        Workspace().run_net_once(net)
    with pytest.raises(ResourceError):
        allocate(memory_limit() + 1, "a block")


@pytest.mark.skipif(sys.maxsize > 1 << 32, reason="this machine has 64-bit addresses")
def test_more_memory_than_32_bits_can_address_is_refused() -> None:
    for shape in ([1 << 15, 1 << 15], [1 << 31], [1 << 20, 1 << 20, 1 << 20]):
        net = NetDef("large", (OperatorDef.of("ConstantFill", [], ["y"], shape=shape),))
        with pytest.raises(ArmnetError, match="ConstantFill"):
            Workspace().run_net_once(net)
    with pytest.raises(ResourceError, match="a block"):
        [allocate(1 << 30, "a block") for _ in range(4)]


def test_running_again_allocates_no_activations(network: Path) -> None:
    with Predictor(Pair.load(network), threads=1) as predictor:
        feeds = {info.name: info.example() for info in predictor.inputs}
        out = predictor.run(feeds)
        predictor.run(feeds, out=out)
        tracemalloc.start()
        try:
            predictor.run(feeds, out=out)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 64 * 1024


def test_nets_decode_at_every_alignment() -> None:
    values = np.arange(100, dtype=np.float32)
    net = NetDef(
        "n",
        (
            OperatorDef.of("GivenTensorFill", [], ["y"], values=values),
            OperatorDef.of("Conv", ["x", "w"], ["z"], scales=[1.5, 2.5], pads=[1, 2, 3, 4], big=1 << 40),
        ),
    )
    content = net.to_bytes()
    for shift in range(8):
        data = memoryview(bytes(shift) + content)[shift:]
        decoded = NetDef.from_bytes(data)
        assert decoded == net
        array = decoded.op[0].get_tensor("values")
        assert array.flags.aligned
        assert float(array.sum()) == 4950.0


def test_weights_stay_in_the_mapped_file(network: Path) -> None:
    arrays = [op.get_tensor("values") for op in Pair.load(network).init_net.op if op.has("values")]
    big = [array for array in arrays if array.nbytes >= 256]
    assert big
    assert not any(array.flags.owndata or array.flags.writeable for array in big)


def test_the_runtime_needs_numpy_alone() -> None:
    networks = prepared("networks/*")
    if not networks:
        pytest.skip("no networks/* was prepared for this device")
    home = str(Path(runtime_arm.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(networks[0])], capture_output=True, text=True, check=False, cwd=home
    )
    assert done.returncode == 0, done.stderr
    loaded: Any = set(done.stdout.split())
    assert "numpy" in loaded
    assert not loaded & {"google", "pytest", "onnx", "PIL", "device_tests", "armnet", "exporter", "optimize"}
