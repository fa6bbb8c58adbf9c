"""The BLAS that NumPy multiplies with, among those that a process has."""

from __future__ import annotations

import os

import numpy as np

from runtime_arm.machine.blas import numpys_first


def test_the_blas_of_another_package_is_none_of_numpys() -> None:
    packages = os.path.dirname(os.path.dirname(np.__file__))
    own = os.path.join(packages, "numpy.libs", "libscipy_openblas64_-32a4b2a6.so")
    opencvs = os.path.join(packages, "opencv_python_headless.libs", "libopenblasp-r0-59ffcd50.3.15.so")
    system = "/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so"
    assert numpys_first([opencvs, own]) == [own]
    assert numpys_first([opencvs, system]) == [system]
    assert numpys_first([system, own]) == [own, system]
