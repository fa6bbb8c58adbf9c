"""Run a Python program, unmodified, with armnet in place of onnxruntime, TensorFlow Lite, Caffe or Caffe2.

  armnet exec program.py picture.jpg
  armnet exec -m package.module --option
  armnet exec command                  a command that is a Python script

The program's imports of onnxruntime, tflite_runtime, ai_edge_litert, caffe and caffe2 get armnet's stand-ins, even
where the packages themselves are installed; so do the programs that it starts. tensorflow is replaced in files that use
tf.lite. docs/standins.md says what holds. Needs NumPy alone; for Caffe's files, protobuf.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="PROGRAM ARGS", nargs=argparse.REMAINDER, help="a script and its arguments")
    parser.add_argument("-m", dest="module", metavar="MODULE ARGS", nargs=argparse.REMAINDER, help="a module instead")


def run(args: argparse.Namespace) -> int:
    from armnet.standins.program import run_program

    return run_program(args.words if args.module is None else ["-m", *args.module])
