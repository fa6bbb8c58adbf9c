"""What pytest loads: the options, the fixtures ``armnet_device`` and ``armnet_model``, and the summary.

It is loaded in every run of pytest if armnet is installed, so it imports little besides pytest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List

import pytest

from armnet.pytest_plugin.common import UPDATE, facts_of, record, shown

if TYPE_CHECKING:
    from armnet.pytest_plugin.device import Device, Readiness

READY = pytest.StashKey[Dict[str, "Readiness"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; those that a repository keeps are settings of pytest's configuration file, too."""
    group = parser.getgroup("armnet", "models on devices")
    group.addoption(
        "--armnet-devices",
        metavar="TARGET,...",
        help="devices for armnet_device, as armnet device list names them: emulated:arm64,emulated:armhf,ssh://pi@host "
        "(default: the setting armnet_devices, or local)",
    )
    group.addoption(
        "--armnet-models",
        metavar="FILE,...",
        help="models for armnet_model (default: the setting armnet_models)",
    )
    group.addoption(
        UPDATE, action="store_true", help="write what is counted into the budget files instead of comparing with them"
    )
    group.addoption(
        "--armnet-strict",
        action="store_true",
        help="a device or a package that is missing fails the test instead of skipping it",
    )
    group.addoption(
        "--armnet-summary",
        metavar="FILE",
        help="add a report in Markdown to this file: accuracy, instructions and memory by model and device, and why "
        "tests failed",
    )
    parser.addini("armnet_devices", "devices for armnet_device (default: local)", "args", [])
    parser.addini("armnet_models", "models for armnet_model, relative to this file", "paths", [])
    parser.addini("armnet_budgets", "the folder of the budget files, relative to the root folder", default="budgets")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    config.addinivalue_line("markers", "armnet_model(*paths): models for this test's armnet_model")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each device and for each model."""
    if "armnet_device" in metafunc.fixturenames:
        names = _devices(metafunc.config)
        metafunc.parametrize("armnet_device", names, indirect=True, ids=names)
    if "armnet_model" in metafunc.fixturenames:
        models = _models(metafunc)
        metafunc.parametrize("armnet_model", models, indirect=True, ids=[path.name for path in models])


def _devices(config: pytest.Config) -> List[str]:
    from armnet.pytest_plugin.device import check_name
    from runtime_arm.errors import UsageError

    text = config.getoption("--armnet-devices")
    names = list(dict.fromkeys(config.getini("armnet_devices") or ["local"] if text is None else _words(text)))
    if not names:
        raise pytest.UsageError(f"--armnet-devices {text!r} names no device; nothing would be tested")
    try:
        for name in names:
            check_name(name)
    except UsageError as error:
        raise pytest.UsageError(f"--armnet-devices: {error}") from None
    return names


def _models(metafunc: pytest.Metafunc) -> List[Path]:
    config = metafunc.config
    marked = [path for mark in metafunc.definition.iter_markers("armnet_model") for path in mark.args]
    text = config.getoption("--armnet-models")
    if marked:
        paths = [config.rootpath / path for path in marked]
    else:
        paths = config.getini("armnet_models") if text is None else [Path(word).absolute() for word in _words(text)]
    if not paths:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid} takes armnet_model, but no model is named: the setting armnet_models, "
            "--armnet-models=FILE or @pytest.mark.armnet_model(FILE) names some"
        )
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise pytest.UsageError(f"armnet_model: no such file: {', '.join(missing)}")
    return list(paths)


def _words(text: str) -> List[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


@pytest.fixture
def armnet_device(request: pytest.FixtureRequest) -> Device:
    """A device that is ready. If it cannot be used, the test is skipped, and the reason says what is missing.

    Devices are prepared once per run: an emulated machine is shared by all tests, and by xdist's processes.
    """
    from armnet.pytest_plugin.device import Device, readiness

    known = request.config.stash.setdefault(READY, {})
    if request.param not in known:
        known[request.param] = readiness(request.param)
    device = Device(request.param, known[request.param], request.node)
    device.record("device", request.param)
    device.require_ready()
    return device


@pytest.fixture
def armnet_model(request: pytest.FixtureRequest) -> Path:
    """The path of a model: any file or folder that armnet.open takes."""
    path: Path = request.param
    record(request.node, "model", path.name)
    return path


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A line for each test that measured a model; the same, and more, in the file of --armnet-summary."""
    path = terminalreporter.config.getoption("--armnet-summary")
    if path:
        from armnet.pytest_plugin.summary import append_summary

        append_summary(Path(path), terminalreporter.stats)
    lines = []
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            facts = facts_of(report).items()
            numbers = [f"{name} {shown(value)}" for name, value in facts if not isinstance(value, str)]
            if numbers and report.when == "call":
                lines.append(f"{report.nodeid}: {', '.join(numbers)}")
    if lines:
        terminalreporter.section("armnet")
        for line in lines:
            terminalreporter.line(line)
