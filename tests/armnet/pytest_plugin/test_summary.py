"""The report in Markdown: what a table's rows hold, and that nothing in a report is taken for Markdown or HTML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from armnet.pytest_plugin.summary import LONGEST, Told, as_markdown
from tests.support.paths import ROOT

pytest_plugins = ["pytester"]


def test_tests_of_a_model_on_a_device_share_a_row() -> None:
    text = as_markdown(
        [
            Told("t.py::a[x]", "passed", "m.onnx", "local", {"agreement": 1.0, "top1": 0.98765}, ""),
            Told("t.py::b[x]", "passed", "m.onnx", "local", {"memory": 1234567}, ""),
            Told("t.py::a[y]", "skipped", "m.onnx", "ssh://pi", {}, "it is not there"),
        ]
    )
    assert text.splitlines()[:6] == [
        "### Models on devices",
        "",
        "| model | device | result | agreement | memory | top1 |",
        "| --- | --- | --- | ---: | ---: | ---: |",
        "| m.onnx | local | passed (2) | 1 | 1,234,567 | 0.9877 |",
        "| m.onnx | ssh://pi | skipped |  |  |  |",
    ]
    assert "<details><summary>skipped: <code>t.py::a[y]</code></summary>\n\n```text\nit is not there\n```" in text


def test_a_report_stays_text() -> None:
    text = as_markdown([Told("t.py::a[<b>]", "failed", "a|b", "<i>", {}, "```\n</details>\n````")])
    assert "| a\\|b | &lt;i> | **failed** |" in text
    assert "<code>t.py::a[&lt;b>]</code>" in text
    assert "\n`````text\n```\n</details>\n````\n`````\n" in text


def test_a_long_report_is_cut() -> None:
    lines = as_markdown([Told("t", "failed", "m", "d", {}, "line\n" * (LONGEST + 7))]).splitlines()
    assert lines.count("line") == LONGEST
    assert "... and 7 more lines" in lines


def test_no_test_is_told() -> None:
    assert as_markdown([]) == "### Models on devices\n\nNo test of a model on a device ran.\n"


def test_a_run_adds_its_report_with_reasons(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("a.onnx", "b.onnx"):
        (pytester.path / name).touch()
    pytester.makepyfile(
        """
        import pytest

        def test_one(armnet_model, armnet_device):
            armnet_device.record("memory", 17)
            if armnet_model.name == "b.onnx":
                pytest.skip("not today")
            assert armnet_model.name == "c.onnx", "it is another one"

        def test_of_no_model(request):
            assert "armnet_model" not in request.fixturenames
        """
    )
    report = Path("report.md")
    (pytester.path / report).write_text("before\n")
    words = ["--armnet-models", "a.onnx,b.onnx", "--armnet-summary", str(report)]
    result = pytester.runpytest_subprocess("-p", "armnet.pytest_plugin.plugin", *words)
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    text = (pytester.path / report).read_text()
    assert text.startswith("before\n### Models on devices\n")
    assert "| a.onnx | local | **failed** | 17 |\n| b.onnx | local | skipped | 17 |\n" in text
    assert re.search(
        r"failed: <code>\S*::test_one\[local-a\.onnx\]</code></summary>\s+```text\nAssertionError: it is another one",
        text,
    )
    assert "Skipped: not today" in text
    assert "test_of_no_model" not in text
