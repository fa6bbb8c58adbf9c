"""Test, run and time on other machines: emulated ARM, or a Raspberry Pi or phone over ssh. Count instructions.

  armnet device list                                            what a TARGET can be
  armnet device test emulated:arm64 emulated:armhf              run the test suite on two targets
  armnet device test ssh://pi@raspberrypi.local --bundle app.pyz
  armnet device run ssh://u0_a1@phone:8022 PAIR --input cat.jpg --top 5
  armnet device bench ssh://pi@raspberrypi.local PAIR
  armnet device doctor ssh://pi@raspberrypi.local PAIR          armnet doctor on the target
  armnet device count PAIR                                      count instructions on emulated ARM, by operator
  armnet device count                                           count the networks that have a budget
  armnet device prepare                                         make the emulated machines now

armnet copies the runtime and the files that it needs into a new folder on the target, and removes the folder at the
end. A target over ssh needs Python 3.9 and NumPy, and pytest for "test"; keys and known hosts are those of ssh.
"""

from __future__ import annotations

import argparse
import signal

from armnet.arguments import FILES, add_connection, add_json, add_pair
from runtime_arm.errors import ArmnetError

TARGET = "a machine, as armnet device list names it"

TEST = """\
Run the test suite on targets: operators, engines, networks, numerics, memory, threads.

  armnet device test emulated:arm64 emulated:armhf
  armnet device test ssh://pi@raspberrypi.local --bundle app.pyz
  armnet device test local --select "golden and Conv"
  armnet device test emulated:arm64 --pocl --select opencl        the kernels of a device beside the processor

Exit status: 0 if all tests pass on all targets, 1 if a test fails, 2 if a target cannot be used or no test matches.
"""
RUN = """\
Run a pair or bundle on a target; pictures are prepared on this machine.

  armnet device run ssh://pi@raspberrypi.local PAIR --input cat.jpg --top 5
  armnet device run emulated:armhf PAIR --input in.npz --output out.npz
"""
BENCH = """\
Time a pair or bundle on a target.

  armnet device bench ssh://pi@raspberrypi.local PAIR --runs 50

Times on an emulated machine mean nothing; armnet device count says what an inference costs.
"""
DOCTOR = """\
Describe a target: its processor and libraries, what slows it down, and whether a network fits and how fast it runs.

  armnet device doctor ssh://pi@raspberrypi.local
  armnet device doctor ssh://pi@raspberrypi.local PAIR
"""
COUNT = """\
Count the instructions of an inference on an emulated machine, with one thread.

  armnet device count PAIR                                    by operator
  armnet device count PAIR --cpu cortex-a7 --against model.tflite
  armnet device count PAIR --budget FILE                      against the model's own budget; --update-budget writes it
  armnet device count                                         armnet's networks that have a budget, against that budget

Exit status: 0, or 1 if a network exceeds its budget.
"""
PREPARE = """\
Make emulated machines and the instruction counter in the cache, which otherwise happens when they are first used.

  armnet device prepare                    arm64, armhf and counting
  armnet device prepare arm64 counting
  armnet device prepare full-system        the whole emulated computer
  armnet device prepare --key              print a hash that changes whenever they may, for a CI that keeps them

It prints a line for each part; running it again is instant.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list what a TARGET can be", description="List what a TARGET can be.")
    add_json(listing)
    _add_test(actions.add_parser("test", help="run the test suite on targets", description=TEST))
    _add_run(actions.add_parser("run", help="run a pair on a target", description=RUN))
    _add_bench(actions.add_parser("bench", help="time a pair on a target", description=BENCH))
    _add_doctor(actions.add_parser("doctor", help="run armnet doctor on a target", description=DOCTOR))
    _add_count(actions.add_parser("count", help="count instructions on an emulated machine", description=COUNT))
    _add_prepare(actions.add_parser("prepare", help="make the emulated machines", description=PREPARE))


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("targets", nargs="+", metavar="TARGET", help=TARGET)
    parser.add_argument(
        "--bundle",
        nargs="+",
        default=[],
        metavar="APP.pyz",
        help="bundles whose self-tests to run, too (default: none)",
    )
    parser.add_argument(
        "--select", metavar="EXPRESSION", help="run only the tests that match, as pytest's -k (default: all)"
    )
    parser.add_argument(
        "--pocl",
        action="store_true",
        help="give local and emulated targets PoCL, a driver that runs OpenCL on processors, so that kernels of GPUs "
        "are tested, too",
    )
    add_connection(parser)
    add_json(parser)


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_target_and_pair(parser)
    parser.add_argument("--input", nargs="+", required=True, metavar="FILE", help=FILES)
    parser.add_argument(
        "--output", metavar="OUT.npz", help="write the outputs to this file, those of several runs stacked"
    )
    parser.add_argument("--top", type=int, metavar="K", help="print the K best answers (default: 5 with labels)")
    add_connection(parser)
    add_json(parser)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    _add_target_and_pair(parser)
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="inferences to time (default: %(default)s)")
    add_connection(parser)
    add_json(parser)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help=TARGET)
    add_pair(parser, optional=True)
    add_connection(parser)
    add_json(parser)


def _add_count(parser: argparse.ArgumentParser) -> None:
    add_pair(parser, optional=True)
    parser.add_argument(
        "--cpu",
        default="cortex-a72",
        metavar="NAME",
        help="cortex-a72, cortex-a53, max or cortex-a7 (default: %(default)s)",
    )
    parser.add_argument(
        "--against",
        nargs="*",
        metavar="MODEL",
        help="also count .onnx files by onnxruntime and .tflite files by tflite-runtime; without PAIR and MODEL, each "
        "network by both",
    )
    parser.add_argument(
        "--budget", metavar="FILE", help="hold instructions and memory against this file, which --update-budget writes"
    )
    parser.add_argument("--update-budget", action="store_true", help="make the counts the new budgets")
    add_json(parser)


def _add_prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="arm64, armhf, counting or full-system (default: the first three)"
    )
    parser.add_argument("--key", action="store_true", help="make nothing and print the hash of all recipes")
    add_json(parser)


def _add_target_and_pair(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help=TARGET)
    add_pair(parser)
    parser.add_argument("--threads", type=int, metavar="N", help="cores to use there (default: all fast cores)")


def run(args: argparse.Namespace) -> int:
    from armnet.device.actions import ACTIONS

    def stop(number: int, frame: object) -> None:
        raise ArmnetError(f"stopped by {signal.Signals(number).name}")

    former = signal.signal(signal.SIGTERM, stop)  # the targets are cleaned up on the way out
    try:
        return ACTIONS[args.action](args)
    finally:
        signal.signal(signal.SIGTERM, former)
