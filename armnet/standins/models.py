"""Makes pairs of the files and bytes that programs hand to a stand-in."""

from __future__ import annotations

import os
from typing import Optional, Union

from armnet.standins.notes import note
from runtime_arm.files import map_file
from runtime_arm.pair.pair import Pair


def pair_of(source: Union[str, bytes], suffix: str, optimised: bool = True, signature: Optional[str] = None) -> Pair:
    """The pair of a model's file, or of the bytes of one; suffix: that of its format, which a file need not have.
    signature: that of a TFLite model. ArmnetError if it cannot be translated."""
    from armnet.opening import pair_of as pair_of_model

    model: Union[str, bytes, memoryview] = source
    if isinstance(source, str) and not source.lower().endswith(suffix) and os.path.isfile(source):
        model = map_file(source)
    return pair_of_model(model, plain=not optimised, signature=signature, notice=note)
