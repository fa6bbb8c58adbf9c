"""Run a Python program, unmodified, with armnet in place of onnxruntime, TensorFlow Lite, Caffe or Caffe2.

  armnet exec program.py picture.jpg
  armnet exec -m package.module --option
  armnet exec command                  a command that is a Python script

When the program imports onnxruntime, tflite_runtime, ai_edge_litert, caffe or caffe2, it gets armnet's stand-ins, even
if the packages themselves are installed. So do programs that it starts. tensorflow is replaced in files that use
tf.lite. docs/standins.md says what works. Needs only NumPy, and protobuf for Caffe's files.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="PROGRAM ARGS", nargs=argparse.REMAINDER, help="a script and its arguments")
    parser.add_argument("-m", dest="module", metavar="MODULE ARGS", nargs=argparse.REMAINDER, help="a module instead")


def run(args: argparse.Namespace) -> int:
    from armnet.standins.program import run_program

    return run_program(args.words if args.module is None else ["-m", *args.module])
