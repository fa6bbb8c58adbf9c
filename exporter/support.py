"""Which operators of a model can be translated: the model is exported on trial, and nothing is written."""

from __future__ import annotations

from typing import List, Optional

from exporter.common.options import ExportOptions
from exporter.common.support_rows import Support
from exporter.containers import extracted
from exporter.formats import Source, format_of

__all__ = ["Support", "support"]


def support(
    *sources: Source, caffe2_compatible: bool = False, keep_losses: bool = False, signature: Optional[str] = None
) -> List[Support]:
    """One row for each operator type of a model: those that cannot be translated first, then by name.

    Takes the files and options of ``export``. If no row has a problem, ``export`` translates the same files. A Caffe
    .prototxt may come without its .caffemodel and a Caffe2 predict_net without its init_net; what then depends on the
    missing weights is not checked. ExportError, FormatError or ResourceError, naming the file, if something other than
    an operator keeps the model from being exported.

    Examples:
        >>> import armnet
        >>> [row.type for row in armnet.support("demo/digits.onnx") if row.problem]
        []
    """
    options = ExportOptions(caffe2_compatible, keep_losses, signature)
    inside = extracted(sources)
    return format_of(inside, "check").support(inside, options)
