"""Test, run, time and count on other machines: emulated ARM, a Raspberry Pi or phone over ssh.

  armnet device list                                            what a TARGET can be
  armnet device test emulated:arm64 emulated:armhf              the suite, on each target
  armnet device test ssh://pi@raspberrypi.local --bundle app.pyz
  armnet device run ssh://u0_a1@phone:8022 PAIR --input cat.jpg --top 5
  armnet device bench ssh://pi@raspberrypi.local PAIR
  armnet device doctor ssh://pi@raspberrypi.local PAIR          armnet doctor, there
  armnet device count PAIR                                      instructions on emulated ARM, by operator
  armnet device count                                           those of the networks that have a budget

A target gets the runtime and what it needs, in a folder that is removed in the end. Over ssh it needs Python 3.9 and
NumPy (for test also pytest); keys and known hosts are ssh's own. Every action takes --json.
"""

from __future__ import annotations

import argparse
import signal

from runtime_arm.errors import ArmnetError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    everywhere = argparse.ArgumentParser(add_help=False)
    everywhere.add_argument("--json", action="store_true", help="print JSON instead of text")
    remote = argparse.ArgumentParser(add_help=False, parents=[everywhere])
    remote.add_argument("--python", default="python3", metavar="PROGRAM", help="Python over ssh (default: %(default)s)")
    remote.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS", help="(default: %(default)g)")
    actions.add_parser("list", parents=[everywhere], help="what a target can be")

    test = actions.add_parser("test", parents=[remote], help="run the suite on targets")
    test.add_argument("targets", nargs="+", metavar="TARGET")
    test.add_argument("--bundle", nargs="+", default=[], metavar="APP.pyz", help="networks to test besides")
    test.add_argument("--select", metavar="EXPRESSION", help="only the tests whose names fit (pytest's -k)")

    run = actions.add_parser("run", parents=[remote], help="run a pair on a target; pictures are prepared here")
    _target_and_pair(run)
    run.add_argument("--input", nargs="+", required=True, metavar="FILE", help=".npy, .npz, a picture, or NAME=FILE")
    run.add_argument("--output", metavar="OUT.npz", help="write the outputs (of several runs: stacked) here")
    run.add_argument("--top", type=int, metavar="K", help="print the K best answers (with labels: 5)")

    bench = actions.add_parser("bench", parents=[remote], help="time a pair on a target")
    _target_and_pair(bench)
    bench.add_argument("--runs", type=int, default=20, metavar="N", help="(default: %(default)s)")

    doctor = actions.add_parser("doctor", parents=[remote], help="armnet doctor on a target")
    doctor.add_argument("target", metavar="TARGET")
    doctor.add_argument("pair", nargs="?", metavar="PAIR")

    count = actions.add_parser("count", parents=[everywhere], help="count instructions on an emulated machine")
    count.add_argument("pair", nargs="?", metavar="PAIR", help="(default: the networks that have a budget)")
    count.add_argument(
        "--cpu", default="cortex-a72", help="cortex-a72, cortex-a53, max or cortex-a7 (default: %(default)s)"
    )
    count.add_argument(
        "--against",
        nargs="*",
        metavar="MODEL",
        help="also .onnx by onnxruntime, .tflite by tflite-runtime; without PAIR: both, of its networks",
    )
    count.add_argument("--update-budget", action="store_true", help="make the counts the new budget")


def _target_and_pair(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="see armnet device list")
    parser.add_argument("pair", metavar="PAIR", help="folder of a pair, or a bundle")
    parser.add_argument("--threads", type=int, metavar="N", help="cores to use there (default: all fast ones)")


def run(args: argparse.Namespace) -> int:
    from armnet.device.actions import ACTIONS

    def stop(number: int, frame: object) -> None:
        raise ArmnetError(f"stopped by {signal.Signals(number).name}")

    former = signal.signal(signal.SIGTERM, stop)  # so that targets are cleaned up
    try:
        return ACTIONS[args.action](args)
    finally:
        signal.signal(signal.SIGTERM, former)
