"""Writes exporter/caffe.desc, the FileDescriptorProto of caffe.proto: run it after a change. Needs grpcio-tools.

    python scripts/make_caffe_descriptor.py [TARGET]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
PROTO = "exporter/caffe.proto"


def descriptor() -> bytes:
    """The serialized FileDescriptorProto."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "caffe.set"
        if protoc.main(["protoc", f"-I{ROOT}", f"--descriptor_set_out={target}", str(ROOT / PROTO)]):
            raise SystemExit(f"protoc refused {PROTO}")
        (file,) = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file
    return bytes(file.SerializeToString(deterministic=True))


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else (ROOT / PROTO).with_suffix(".desc")).write_bytes(descriptor())
