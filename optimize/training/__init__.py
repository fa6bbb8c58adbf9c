"""Rewrites of train nets: fused normalisations, masks instead of activations for the backward pass, products that have
a gradient, early updates, blobs that are computed again instead of being kept.
"""

from __future__ import annotations

from optimize.training.early_updates import first_backward, update_early
from optimize.training.fuse_normalizations import fuse_normalizations
from optimize.training.keep_masks import keep_masks
from optimize.training.replace_broadcast_products import replace_broadcast_products
from optimize.training.step_plans import StepPlan, step_plans

__all__ = [
    "StepPlan",
    "first_backward",
    "fuse_normalizations",
    "keep_masks",
    "replace_broadcast_products",
    "step_plans",
    "update_early",
]
