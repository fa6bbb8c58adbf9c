"""Trains networks: gradients as nets, losses, solvers, and a Trainer that trains step by step.

add_gradient_operators    appends to a net the operators that compute the gradients of its blobs
Trainer                   trains the network of a pair; losses are in ``training.losses``, solvers in
                          ``training.solvers``, the schedules of their rates in ``training.schedules``
caffe                     nets and solvers of Caffe from its own files: ``training.caffe.Net`` and ``.Solver``

Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_arm.imports import lazy_names

if TYPE_CHECKING:
    from optimize.gradients import add_gradient_operators
    from training.trainer import Trainer
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"add_gradient_operators": "optimize.gradients", "Trainer": "training.trainer"}
    )

__all__ = ["Trainer", "add_gradient_operators"]
