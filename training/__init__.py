"""Training networks: gradients as nets.

add_gradient_operators    appends to a net the operators that compute the gradients of its blobs

The names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_arm.imports import lazy_names

if TYPE_CHECKING:
    from optimize.gradients import add_gradient_operators
else:
    __getattr__, __dir__ = lazy_names(__name__, {"add_gradient_operators": "optimize.gradients"})

__all__ = ["add_gradient_operators"]
