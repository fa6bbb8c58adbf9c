"""``caffe._caffe``, where programs look for the types of what nets hold."""

from __future__ import annotations

from armnet.standins.caffe.blobs import Blob, BlobVec
from armnet.standins.caffe.layer import Layer
from armnet.standins.caffe.net import Net

__all__ = ["Blob", "BlobVec", "Layer", "Net"]
