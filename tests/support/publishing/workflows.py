"""Runs the shell steps of GitHub's workflows and actions as a runner does, in an environment with nothing else in it.

Steps that use other actions do nothing, except for actions of this repository, whose steps run in their place.
Expressions are names of contexts (``inputs.devices``, ``steps.test.outputs.report``); conditions are those below.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

import yaml

from tests.support.paths import ROOT

LOCAL = re.compile(r"\./(?:\.armnet/)?(\.github/actions/[\w-]+)")
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")  # GitHub's "shell: bash"


def parsed(path: Path) -> Any:
    """A YAML file; the key "on" of YAML 1.1, a Boolean, is the word that it is in YAML 1.2."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if isinstance(content, dict) and True in content:
        content["on"] = content.pop(True)
    return content


@dataclass
class Runner:
    """A machine that runs steps. variables: its environment; contexts: what expressions may name, without steps."""

    workspace: Path
    temporary: Path
    variables: Mapping[str, str]
    contexts: Dict[str, str] = field(default_factory=dict)
    used: List[str] = field(default_factory=list)  # the actions of others that steps use
    output: str = ""  # what all steps printed
    failed: bool = False

    @property
    def summary(self) -> str:
        """The job's summary."""
        path = self.temporary / "summary"
        return path.read_text() if path.exists() else ""

    def run(self, steps: List[Dict[str, Any]], inputs: Mapping[str, str], action: Optional[Path] = None) -> None:
        """Runs steps with inputs; after a failure only those that ask for it. action: the folder of the action."""
        known = {**self.contexts, **{f"inputs.{name}": value for name, value in inputs.items()}}
        known.update({"runner.temp": str(self.temporary), "runner.os": "Linux"})
        for step in steps:
            if self._wanted(step.get("if"), known):
                if "run" in step:
                    self._shell(step, known, action)
                else:
                    self._use(step, known)

    def _wanted(self, condition: Optional[str], known: Mapping[str, str]) -> bool:
        text = (condition or "success()").strip().removeprefix("${{").removesuffix("}}")
        for part in text.split("&&"):
            part = part.strip()
            compared = re.fullmatch(r"([\w.-]+) (!=|==) '([^']*)'", part)
            if compared is not None:
                holds = (known[compared[1]] == compared[3]) == (compared[2] == "==")
            else:
                holds = {"success()": not self.failed, "failure()": self.failed, "!cancelled()": True}[part]
            if not holds:
                return False
        return True

    def _use(self, step: Mapping[str, Any], known: Dict[str, str]) -> None:
        local = LOCAL.fullmatch(step["uses"])
        if local is None:
            self.used.append(step["uses"])
            return
        folder = ROOT / local[1]
        action = parsed(folder / "action.yml")
        given = {name: replaced(str(value), known) for name, value in step.get("with", {}).items()}
        unknown = set(given) - set(action["inputs"])
        assert not unknown, f"{step['uses']} has no inputs {unknown}"
        inputs = {name: str(facts.get("default", "")) for name, facts in action["inputs"].items()}
        self.run(action["runs"]["steps"], {**inputs, **given}, folder)

    def _shell(self, step: Mapping[str, Any], known: Dict[str, str], action: Optional[Path]) -> None:
        files = {name: self.temporary / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_ENV")}
        for path in files.values():
            path.write_text("")
        script = self.temporary / "step.sh"
        script.write_text(replaced(step["run"], known))
        variables = {
            **self.variables,
            "CI": "true",
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_STEP_SUMMARY": str(self.temporary / "summary"),
            "RUNNER_TEMP": str(self.temporary),
            **({"GITHUB_ACTION_PATH": str(action)} if action else {}),
            **{name: str(path) for name, path in files.items()},
            **{name: replaced(str(value), known) for name, value in step.get("env", {}).items()},
        }
        folder = self.workspace / replaced(str(step.get("working-directory", ".")), known)
        done = subprocess.run(
            [*SHELL, str(script)],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.output += done.stdout
        self.failed = self.failed or done.returncode != 0
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            known[f"steps.{step['id']}.outputs.{name}"] = value


def replaced(text: str, known: Mapping[str, str]) -> str:
    """The text with its expressions replaced; KeyError for one that is not known."""
    return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", lambda match: known[match[1]], text)
