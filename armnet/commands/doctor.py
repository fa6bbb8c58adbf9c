"""Describe this machine: its processor, what slows it down, whether a network fits, and how long an inference takes.

  armnet doctor
  armnet doctor PAIR
  armnet device doctor ssh://pi@raspberrypi.local PAIR     the same for another machine

Needs only NumPy.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from armnet.arguments import add_json, add_pair, add_threads
from armnet.device.findings import MATRIX, as_text
from runtime_arm.errors import DeviceError, NoDriver

SECONDS = 2.0  # for measuring a network
HOT = 80.0  # degrees Celsius; a Raspberry Pi slows down from here


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser, optional=True)
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import print_json, print_text
    from runtime_arm.machine import identity as machine

    facts: Dict[str, Any] = {
        "identity": machine.identity(),
        "condition": machine.condition(),
        "gflops": matmul_gflops(),
    }
    facts["network"] = None if not args.pair else _examined(args.pair, args.threads, facts["condition"])
    facts["devices"] = devices()
    facts["warnings"] = warnings(facts)
    if args.json:
        print_json("doctor", facts)
    else:
        print_text(as_text(facts))
    return 0


def devices() -> List[Dict[str, Any]]:
    """The devices beside the processor, each with its limits and GFLOP/s of a convolution; none where no driver is."""
    from runtime_arm.gpu.devices import KINDS, probe
    from runtime_arm.gpu.measuring import convolution_gflops

    found: List[Dict[str, Any]] = []
    for kind in KINDS:
        try:
            there = probe(kind)
        except NoDriver:
            continue
        except DeviceError as error:
            found.append({"spec": kind, "problem": str(error)})
            continue
        for one in there:
            gflops = None if one.problem else convolution_gflops(one.spec)
            found.append({**one._asdict(), "gflops": gflops})
    return found


def matmul_gflops() -> float:
    """GFLOP/s of a float32 matrix product, with as many threads as NumPy's BLAS uses by default."""
    import numpy as np

    a = np.ones((MATRIX, MATRIX), np.float32)
    y = np.empty_like(a)
    fastest, begin = float("inf"), time.perf_counter()
    while time.perf_counter() - begin < 0.2:
        start = time.perf_counter()
        np.matmul(a, a, out=y)
        fastest = min(fastest, time.perf_counter() - start)
    return 2e-9 * MATRIX**3 / fastest


def _examined(model: List[str], threads: Optional[int], condition: Dict[str, Any]) -> Dict[str, Any]:
    from armnet.opening import pair_folder

    with pair_folder(model) as folder:
        return examine(str(folder), threads, condition)


def examine(path: str, threads: Optional[int], condition: Dict[str, Any]) -> Dict[str, Any]:
    """The bytes and the time that a network needs on this machine. ArmnetError if it cannot be loaded or planned."""
    from armnet.shapes import shapes_of
    from runtime_arm import load

    available = condition["available_nbytes"]
    weights = sum(file.stat().st_size for file in ([Path(path)] if os.path.isfile(path) else Path(path).glob("*.pb")))
    if available is not None and weights > available:
        return {"weights_nbytes": weights, "needs_nbytes": weights, "fits": False, "ms": None, "how": "not measured"}
    with load(path, threads=1) as predictor:
        arena = predictor.plan(shapes_of([], predictor.pair)).arena_nbytes
        facts = {
            "weights_nbytes": weights,
            "arena_nbytes": arena,
            "needs_nbytes": _resident_nbytes() + weights + arena,
            "fits": available is None or arena + weights < available,
            "threads": 1,
            "ms": None,
            "how": "not measured",
        }
        if not facts["fits"]:
            return facts
        facts["ms"], facts["how"], is_whole = _first_inference(predictor)
    if is_whole:
        with load(path, threads=threads) as predictor:
            facts["threads"] = predictor.threads
            facts["ms"], facts["how"] = _median_inference(predictor)
    return facts


class _Enough(Exception):
    """The time for measuring is up."""


def _first_inference(predictor: Any) -> Tuple[float, str, bool]:
    """Milliseconds of an inference, how they were found, and whether it finished within SECONDS."""
    from armnet.shapes import shapes_of
    from runtime_arm.execution.profiling import around_steps
    from runtime_arm.planning.cost import cost_of

    segment = predictor.plan(shapes_of([], predictor.pair))
    done: List[float] = []

    def weight(step: Any) -> float:
        cost = cost_of(step.op, step.in_specs, step.out_specs)
        return cost.multiply_adds + cost.nbytes

    def stopping(step: Any, run: Any) -> Any:
        def run_or_stop() -> None:
            if done and time.perf_counter() > start + SECONDS:
                raise _Enough
            run()
            done.append(weight(step))

        return run_or_stop

    with around_steps(predictor, stopping):
        start = time.perf_counter()
        try:
            predictor.run(_examples(predictor))
        except _Enough:
            seconds = (time.perf_counter() - start) * sum(map(weight, segment.steps)) / sum(done)
            return seconds * 1e3, f"from {len(done)} of {len(segment.steps)} operators", False
    return (time.perf_counter() - start) * 1e3, "one inference", True


def _median_inference(predictor: Any) -> Tuple[float, str]:
    """Milliseconds of an inference and how they were found, measured for SECONDS after one inference to warm up."""
    from statistics import median

    feeds = _examples(predictor)
    predictor.run(feeds)
    times: List[float] = []
    end = time.perf_counter() + SECONDS
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        predictor.run(feeds)
        times.append(time.perf_counter() - start)
    return median(times) * 1e3, f"the median of {len(times)} inferences"


def _examples(predictor: Any) -> Dict[str, Any]:
    from armnet.shapes import shapes_of

    shapes = shapes_of([], predictor.pair)
    return {info.name: info.example(shapes.get(info.name)) for info in predictor.inputs}


def _resident_nbytes() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def warnings(facts: Dict[str, Any]) -> List[str]:
    """What the user should know and may be able to change."""
    identity, condition, network = facts["identity"], facts["condition"], facts["network"]
    found = [warning for warning in (_blas_warning(identity),) if warning]
    if identity["machine"] == "aarch64" and sys.maxsize < 1 << 32:
        found.append("this is a 32-bit Python on a 64-bit CPU; a 64-bit system computes twice as fast")
    found += [f"the CPU is slowed down: {reason}" for reason in condition["slowed"]]
    found += [
        f"{zone} is at {celsius:.0f} degrees Celsius" for zone, celsius in condition["celsius"].items() if celsius > HOT
    ]
    if network is not None and not network["fits"]:
        found.append("the network does not fit into the free memory")
    return found


def _blas_warning(identity: Dict[str, Any]) -> str:
    """What is wrong with NumPy's BLAS, and what to install; "" if nothing is. The ratios are those of instruction
    counts for a product of 256 x 256 matrices on a Cortex-A7.
    """
    from runtime_arm.machine.blas import SCALAR_CORES

    blas, is_arm32 = identity["blas"], identity["machine"].startswith("armv")
    install = "install one: apt-get install libopenblas0-pthread, pkg install libopenblas, or pip install numpy"
    if blas is None:
        return f"NumPy HAS NO BLAS here: matrix products are ten times slower than they need to be; {install}"
    for name, folder, ratio in (("BLIS", "/blis-", "4.6 times the"), ("ATLAS", "/atlas/", "a seventh more")):
        if is_arm32 and folder in blas["path"]:
            better = "apt-get install libopenblas0-pthread"
            return f"NumPy's BLAS is {name}, whose products take {ratio} instructions of OpenBLAS's here; {better}"
    if "/blas/" in blas["path"] or blas["name"].startswith("libblas"):
        return f"NumPy uses the REFERENCE BLAS, which is ten times slower than OpenBLAS; {install}"
    if not is_arm32 or blas["core"] not in SCALAR_CORES:
        return ""
    if "crc32" in identity["features"]:  # all ARMv8 but the Cortex-A32 run 64-bit systems
        better = "this CPU can run a 64-bit system, where they take a quarter of the instructions"
    else:
        better = "no package of Debian's is faster; OpenBLAS built for ARMV7 from sources since May 2026 uses NEON"
    return f"OpenBLAS is built for {blas['core']} and multiplies number by number; {better}"
