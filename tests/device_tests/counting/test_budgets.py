"""Networks stay within their instruction budgets, and whatever exceeds its budget is named."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict

import pytest

from device_tests.host.counting import budgets, operator_counts
from device_tests.host.counting.budgets import Budget, excesses
from device_tests.host.counting.operator_counts import NetworkCounts, OperatorCounts, count_other_runtime
from device_tests.host.counting.regions import Counts
from device_tests.host.emulation.machine import Machine
from device_tests.host.suite_run import runtime_files
from runtime_arm.errors import ArmnetError, UsageError

BUDGET = Budget({}, {"instructions": 10_000_000}, {"Conv -> y": 8_000_000, "Relu -> z": 30_000}, 500_000_000)


def counted(network: int, conv: int, relu: int, start: int = 500_000_000, **more: int) -> NetworkCounts:
    """Counts of a network whose operators cost these numbers of instructions."""

    def counts(instructions: int) -> Counts:
        return Counts(1, instructions, 0, 0, 0)

    operators = [("Conv", "y", conv), ("Relu", "z", relu), *((type, "w", value) for type, value in more.items())]
    return NetworkCounts(
        counts(network),
        [
            OperatorCounts(number, type, output, "NUMPY", counts(value))
            for number, (type, output, value) in enumerate(operators)
        ],
        counts(start),
    )


def test_an_excess_within_two_per_cent_passes() -> None:
    assert excesses(BUDGET, counted(10_199_000, 8_159_000, 30_000)) == []


def test_lower_counts_pass() -> None:
    assert excesses(BUDGET, counted(1_000_000, 900_000, 10)) == []


def test_excesses_are_named_worst_first() -> None:
    lines = excesses(BUDGET, counted(11_000_000, 8_500_000, 530_001))
    assert lines == [
        "the network: 10,000,000 instructions allowed, 11,000,000 counted",
        "Relu -> z by NUMPY: 30,000 instructions allowed, 530,001 counted",
        "Conv -> y by NUMPY: 8,000,000 instructions allowed, 8,500,000 counted",
    ]


def test_a_cheaper_network_passes_whatever_its_operators_cost() -> None:
    assert excesses(BUDGET, counted(9_700_000, 1_000_000, 8_700_000)) == []


def test_an_operator_that_grows_is_named_even_if_others_make_up_for_it() -> None:
    assert len(excesses(BUDGET, counted(10_000_000, 8_500_000, 0))) == 1


def test_the_noise_of_small_operators_passes() -> None:
    assert excesses(BUDGET, counted(10_000_000, 8_000_000, 49_000)) == []


def test_new_operators_are_named_if_the_network_grew() -> None:
    assert excesses(BUDGET, counted(10_000_000, 7_000_000, 0, ConvRelu=2_000_000)) == []
    grown = excesses(BUDGET, counted(12_000_000, 8_000_000, 30_000, Softmax=2_000_000))
    assert "Softmax -> w" in grown[1]


def test_a_start_that_grows_is_named() -> None:
    assert excesses(BUDGET, counted(10_000_000, 8_000_000, 30_000, start=509_000_000)) == []
    assert excesses(BUDGET, counted(1_000_000, 800_000, 30_000, start=511_000_000)) == [
        "the start: 500,000,000 instructions allowed, 511,000,000 counted"
    ]


def test_a_budget_says_what_it_was_counted_on() -> None:
    budget = BUDGET._replace(counted_on={"machine": "arm64-cortex-a72", "numpy": "1.24.2"})
    assert budgets.other_conditions(budget, budget.counted_on) == ""
    assert budgets.other_conditions(budget, {"machine": "arm64-cortex-a72", "numpy": "2.3.1"}) == (
        "numpy is 2.3.1, was 1.24.2"
    )


def test_unknown_budgets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArmnetError, match="no such budget"):
        budgets.read_budget("nowhere")
    with pytest.raises(UsageError, match="no network with a budget is called 'nowhere'; there are digits"):
        budgets.source_model("nowhere", tmp_path)


OUTSIDE = 250_000  # instructions of a run outside operators: checking and copying inputs, fetching outputs


@pytest.fixture(scope="module")
def counts(arm64: Machine, counting: Path, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, NetworkCounts]:
    """Counts of every network that has a budget; two networks run at a time."""
    folder = tmp_path_factory.mktemp("networks")

    def one(name: str) -> NetworkCounts:
        return budgets.count_network(arm64, budgets.source_model(name, folder), folder)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(budgets.NETWORKS, pool.map(one, budgets.NETWORKS)))


@pytest.fixture(scope="module")
def conditions(arm64: Machine) -> Dict[str, Any]:
    return budgets.counted_on(arm64)


@pytest.mark.parametrize("name", budgets.NETWORKS)
def test_the_network_stays_within_its_budget(
    name: str, conditions: Dict[str, Any], request: pytest.FixtureRequest
) -> None:
    budget = budgets.read_budget(name)
    difference = budgets.other_conditions(budget, conditions)
    if difference:
        pytest.skip(f"the budget does not hold here: {difference}")
    exceeding = excesses(budget, request.getfixturevalue("counts")[name])
    assert exceeding == [], "if there is a good reason for it: armnet device count --update-budget"


def test_counts_add_up(counts: Dict[str, NetworkCounts]) -> None:
    for network, operators, _ in counts.values():
        total = sum(op.counts.instructions for op in operators)
        assert total == pytest.approx(network.instructions, rel=0.1, abs=OUTSIDE)
        assert sum(op.counts.multiply_add for op in operators) == pytest.approx(network.multiply_add, rel=0.001)


SLOWED = """

def _ten_times(kernel):
    def bind(call):
        run = kernel.bind(call)
        return lambda: [run() for _ in range(10)]
    return kernel._replace(bind=bind)

softmax.kernels.update({engine: _ten_times(kernel) for engine, kernel in softmax.kernels.items()})
"""


def test_an_operator_that_became_slower_is_named(
    arm64: Machine, counting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = budgets.optimised(budgets.source_model("digits", tmp_path), tmp_path)
    budget = budgets.as_budget(arm64, operator_counts.count_pair(arm64, pair))
    name, slowed = "runtime_arm/operators/norm/softmax.py", tmp_path / "slowed.py"
    slowed.write_text(runtime_files()[name].read_text() + SLOWED)
    monkeypatch.setattr(operator_counts, "runtime_files", lambda: {**runtime_files(), name: slowed})
    lines = excesses(budget, operator_counts.count_pair(arm64, pair))
    named = [line.split(" by ")[0] for line in lines if not line.startswith("the network")]
    assert named == ["Softmax -> probabilities"]


@pytest.mark.parametrize(
    ("other", "machine"), [("onnxruntime", "arm64"), ("tflite-runtime", "arm64"), ("tflite-runtime", "armhf")]
)
def test_other_runtimes_are_counted(
    other: str, machine: str, request: pytest.FixtureRequest, counting: Path, tmp_path: Path
) -> None:
    model = budgets.model_for_runtime(budgets.source_model("digits", tmp_path), other, tmp_path)
    try:
        counts = count_other_runtime(request.getfixturevalue(machine), model)
    except operator_counts.EmulationUnavailable as error:
        pytest.skip(str(error))
    assert 200_000 < counts.instructions < 5_000_000
    assert counts.multiply_add > 10_000


def test_other_runtimes_take_their_own_formats(arm64: Machine) -> None:
    with pytest.raises(UsageError, match=r"model\.pb: no other runtime takes this file; give \.onnx \(onnxruntime\)"):
        count_other_runtime(arm64, Path("model.pb"))
