"""Writes caffe.desc and netdef.desc, the FileDescriptorProtos of the .proto files. Run it after changing one of them.

Needs grpcio-tools.

    python scripts/make_descriptors.py [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import checkout  # noqa: F401
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
PROTOS = (ROOT / "exporter/caffe/caffe.proto", ROOT / "runtime_arm/netdef/netdef.proto")


def descriptor(proto: Path) -> bytes:
    """The serialized FileDescriptorProto."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "set"
        if protoc.main(["protoc", f"-I{ROOT}", f"--descriptor_set_out={target}", str(proto)]):
            raise SystemExit(f"protoc refused {proto}")
        (file,) = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file
    return bytes(file.SerializeToString(deterministic=True))


if __name__ == "__main__":
    for proto in PROTOS:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else proto.parent
        (folder / f"{proto.stem}.desc").write_bytes(descriptor(proto))
