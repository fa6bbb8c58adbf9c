"""A pytest plugin: a model gives the original's answers, within its budget, on every device.

    from armnet.pytest_plugin import assert_same_answers, assert_within_budget

    def test_answers(armnet_model, armnet_device):
        assert_same_answers(armnet_model, "digits_fast", "held_back.npz", armnet_device, top1=0.99, tolerance=1e-3)

    def test_budget(armnet_model, armnet_device):
        assert_within_budget(armnet_model, armnet_device)

``plugin`` holds the options and the fixtures; pytest loads it if armnet is installed. Everything else is imported when
a test first uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_arm.imports import lazy_names

if TYPE_CHECKING:
    from armnet.pytest_plugin.answers import assert_same_answers
    from armnet.pytest_plugin.budget import assert_within_budget
    from armnet.pytest_plugin.device import Device
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Device": "armnet.pytest_plugin.device",
            "assert_same_answers": "armnet.pytest_plugin.answers",
            "assert_within_budget": "armnet.pytest_plugin.budget",
        },
    )

__all__ = ["Device", "assert_same_answers", "assert_within_budget"]
