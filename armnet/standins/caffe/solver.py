"""Solvers: ``solver = caffe.get_solver("solver.prototxt")``, ``solver.step(100)``."""

from __future__ import annotations

import os
from pathlib import Path

from armnet.standins.caffe.net import Net
from armnet.standins.failures import raised_as
from armnet.standins.notes import Standin, say
from runtime_arm.files import AnyPath
from training.caffe.course import Course


class Solver(Standin):
    """A solver of the kind that its file says; the classes below are of their own kind, whatever it says.

    ``net``, ``test_nets``, which share the parameters of ``net``, ``iter`` and ``param``, what the file says.
    RuntimeError with armnet's reason for files that do not fit; what a solver displays goes to the log.
    """

    _package = "caffe"
    _type = ""

    def __init__(self, solver_file: AnyPath):
        with raised_as(RuntimeError):
            self._course = Course(Path(solver_file), kind=self._type, by_hand=True, say=say)
            for test in self._course.tests:
                test.net.share_with(self._course.solver.net)
        self.param = self._course.proto
        self.net = Net.of(self._course.solver.net, self._course.feeds)
        self.test_nets = [Net.of(test.net, test.feeds) for test in self._course.tests]

    @property
    def iter(self) -> int:
        """The steps that are done."""
        return self._course.solver.iteration

    def step(self, iters: int) -> None:
        """So many steps, with the tests, displays and snapshots between them that the solver's file wants."""
        with raised_as(RuntimeError):
            self._course.step(iters)

    def apply_update(self) -> None:
        """Change the parameters of ``net`` by what the solver makes of the gradients that they hold; this is a step."""
        self._course.solver.apply_update()

    def solve(self, resume_file: str = "") -> None:
        """The steps that are left, from a solverstate if one is given."""
        if resume_file:
            self.restore(resume_file)
        with raised_as(RuntimeError):
            self._course.run()

    def restore(self, state_file: AnyPath) -> None:
        """Go on from a solverstate."""
        with raised_as(RuntimeError):
            self._course.restore(os.fspath(state_file))

    def snapshot(self) -> None:
        """Write a caffemodel and a solverstate."""
        with raised_as(RuntimeError):
            self._course.snapshot()


class SGDSolver(Solver):
    """Steps of SGD."""

    _type = "SGD"


class NesterovSolver(Solver):
    """Steps of Nesterov."""

    _type = "Nesterov"


class AdaGradSolver(Solver):
    """Steps of AdaGrad."""

    _type = "AdaGrad"


class RMSPropSolver(Solver):
    """Steps of RMSProp."""

    _type = "RMSProp"


class AdaDeltaSolver(Solver):
    """Steps of AdaDelta."""

    _type = "AdaDelta"


class AdamSolver(Solver):
    """Steps of Adam."""

    _type = "Adam"


def get_solver(solver_file: AnyPath) -> Solver:
    """A solver of the type that the file says."""
    return Solver(solver_file)
