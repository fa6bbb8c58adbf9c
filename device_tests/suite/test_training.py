"""Train nets that the host has made give the host's results: forward pass, backward pass and updates."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from device_tests.suite.tolerance import assert_network_close
from runtime_arm.execution.workspace import Workspace


def test_a_train_net_takes_the_steps_of_the_host(training: Path) -> None:
    with np.load(training / "steps.npz") as archive:
        recorded = {name: archive[name] for name in archive.files}
    workspace = Workspace()
    workspace.run_net_once((training / "init_net.pb").read_bytes())
    net = (training / "train_net.pb").read_bytes()
    for step, loss in enumerate(recorded["losses"]):
        prefix = f"in_{step}_"
        for name, value in recorded.items():
            if name.startswith(prefix):
                workspace.feed(name[len(prefix) :], value)
        workspace.run_net_once(net)
        assert_network_close(np.asarray(workspace.fetch("loss")), np.float32(loss), what=f"the loss of step {step}")
    parameters = [name for name in recorded if name.startswith("out_")]
    assert len(parameters) == 8
    for name in parameters:
        found, wanted = workspace.fetch(name[4:]), recorded[name]
        assert_network_close(found.reshape(wanted.shape), wanted, what=name[4:])
