"""Rewrites of train nets: fused normalisations, and masks instead of activations for the way back."""

from __future__ import annotations

from optimize.training.fuse_normalizations import fuse_normalizations
from optimize.training.keep_masks import keep_masks

__all__ = ["fuse_normalizations", "keep_masks"]
