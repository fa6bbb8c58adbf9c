"""Where Caffe would run: armnet has the processor alone."""

from __future__ import annotations

from armnet.standins.notes import note

seed = 0  # of what fills parameters that no caffemodel gives


def set_mode_cpu() -> None:
    """Run on the processor, as always."""


def set_mode_gpu() -> None:
    """Noted: the processor runs."""
    note("caffe.set_mode_gpu() changes nothing: armnet runs Caffe's nets on the processor")


def set_device(gpu_id: int) -> None:
    """Noted: there is no other device."""
    note(f"caffe.set_device({gpu_id}) changes nothing: armnet runs Caffe's nets on the processor")


def set_random_seed(new: int) -> None:
    """The seed of what fills parameters from now on."""
    global seed
    seed = int(new)
