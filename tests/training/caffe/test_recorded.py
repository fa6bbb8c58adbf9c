"""Recorded gradients and training runs of the real Caffe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.training_goldens import parameters
from tests.training.caffe.recorded import FINAL, Case, final, run_gradients, run_solver, same
from training.caffe.course import Course


@pytest.mark.parametrize("case", parameters("caffe_gradients"))
def test_gradients_are_those_of_caffe(case: Case) -> None:
    run_gradients(case)


@pytest.mark.parametrize("case", parameters("caffe_runs"))
def test_a_solver_takes_the_steps_of_caffe(case: Case) -> None:
    run_solver(case)


@pytest.mark.parametrize("case", parameters("caffe_runs")[1:2])
def test_the_files_of_a_solver_lead_where_they_led_caffe(case: Case, tmp_path: Path) -> None:
    rows = np.concatenate([batch.reshape(-1) for batch in case["batches"]])
    np.savez(tmp_path / "data.npz", data=case["data"]["x_train"][rows], label=case["data"]["y_train"][rows])
    (tmp_path / "train_val.prototxt").write_text(case["net_text"])
    start = tmp_path / "start.caffemodel"
    start.write_bytes(bytes(case["files"]["init_caffemodel"]))
    solver = tmp_path / "solver.prototxt"
    solver.write_text(case["solver_text"].replace('snapshot_prefix: "s"', f'snapshot_prefix: "{tmp_path}/s"'))
    course = Course(solver, weights=start, data={"": str(tmp_path / "data.npz")})
    course.run()
    same(course.solver, final(case), FINAL)
