"""``caffe._caffe``, where programs look for the types of what nets hold."""

from __future__ import annotations

from armnet.standins.caffe.net import Blob, BlobVec, Net

__all__ = ["Blob", "BlobVec", "Net"]
