"""What a session is to those that it hands out and that call it: its bindings, and ``session._sess``."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Protocol, Sequence

from armnet.standins.onnxruntime.nodes import NodeArg
from armnet.standins.onnxruntime.values import OrtValue


class Runs(Protocol):
    """Says what it takes and gives, and runs; see ``session.Session``."""

    def get_inputs(self) -> List[NodeArg]: ...

    def get_outputs(self) -> List[NodeArg]: ...

    def run(
        self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any], run_options: Any = None
    ) -> List[Any]: ...

    def run_with_ort_values(
        self,
        output_names: Optional[Sequence[str]],
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: Any = None,
    ) -> List[OrtValue]: ...

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None: ...
