"""The BLAS that NumPy multiplies with, among those that a process has."""

from __future__ import annotations

import os
import subprocess
import sys

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
