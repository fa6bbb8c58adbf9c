"""Rewrites of train nets: fused normalisations, masks instead of activations for the way back, early updates."""

from __future__ import annotations

from optimize.training.early_updates import first_backward, update_early
from optimize.training.fuse_normalizations import fuse_normalizations
from optimize.training.keep_masks import keep_masks

__all__ = ["first_backward", "fuse_normalizations", "keep_masks", "update_early"]
