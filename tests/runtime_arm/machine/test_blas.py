"""The BLAS that NumPy multiplies with, among those that a process has."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from runtime_arm.execution.workers import FORKS
from runtime_arm.machine import blas
from runtime_arm.machine.blas import numpys_first

FORKING = """
import os
import numpy as np
from runtime_arm.machine import blas

def threads():
    return len(os.listdir("/proc/self/task"))

library = blas.loaded()
print(threads(), library.get_threads())
if os.fork() == 0:
    os._exit(0)
os.wait()
with blas.Threads(1):
    print(threads(), library.get_threads())
print(threads(), library.get_threads())
a = np.ones((512, 512), np.float32)
assert (a @ a == 512).all()
print(threads(), library.get_threads())
"""


def test_the_blas_of_another_package_is_none_of_numpys() -> None:
    packages = os.path.dirname(os.path.dirname(np.__file__))
    own = os.path.join(packages, "numpy.libs", "libscipy_openblas64_-32a4b2a6.so")
    opencvs = os.path.join(packages, "opencv_python_headless.libs", "libopenblasp-r0-59ffcd50.3.15.so")
    system = "/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so"
    assert numpys_first([opencvs, own]) == [own]
    assert numpys_first([opencvs, system]) == [system]
    assert numpys_first([system, own]) == [own, system]


@pytest.mark.skipif(not FORKS, reason="workers are threads on this system")
@pytest.mark.skipif(blas.loaded() is None, reason="NumPy's BLAS is not OpenBLAS")
def test_no_thread_of_blas_starts_after_a_fork_before_it_is_needed() -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", FORKING], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    before, inside, after, multiplied = (tuple(map(int, line.split())) for line in done.stdout.splitlines())
    if before[1] == 1:
        pytest.skip("this OpenBLAS has one thread only")
    assert before == multiplied
    assert inside == (before[0] - 1, 1)
    assert after == (before[0] - 1, before[1])


class Function:
    """A function of a library: what ctypes lets one say of it, and what it answers."""

    argtypes: object = None
    restype: object = None

    def __init__(self, answer: object = None):
        self.answer = answer

    def __call__(self) -> object:
        return self.answer


@pytest.mark.parametrize(("config", "quiet"), [("OpenBLAS 0.3.21 DYNAMIC_ARCH", True), ("OpenBLAS USE_OPENMP", False)])
def test_openmp_is_told_the_number_of_threads(monkeypatch: pytest.MonkeyPatch, config: str, quiet: bool) -> None:
    """It takes its own number for OpenBLAS's where they differ: 4 threads ran where 2 were asked for."""
    setter: Any = Function()
    other: Any = Function()
    library = SimpleNamespace(
        openblas_set_num_threads=setter,
        openblas_get_num_threads=Function(4),
        openblas_get_config=Function(config.encode()),
    )
    monkeypatch.setattr("ctypes.CDLL", lambda path: library)
    monkeypatch.setattr(blas, "_quiet_setter", lambda library, setter: other)
    found = blas._speak_to("libopenblas.so")
    assert found is not None
    assert found.set_threads is (other if quiet else setter)
