"""Caffe2's memonger: blobs that are never live at the same time get one name, for nets that the real Caffe2 runs."""

from __future__ import annotations

from optimize.memonger import optimize_inference_fast, optimize_interference, rename_blobs, share_conv_buffers

__all__ = ["optimize_inference_fast", "optimize_interference", "rename_blobs", "share_conv_buffers"]
