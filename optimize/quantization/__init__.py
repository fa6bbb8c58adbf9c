"""Makes a pair smaller: ``quantize`` stores weights, and computes, in fewer bits."""

from optimize.quantization.pipeline import quantize
from optimize.quantization.report import QuantizationReport

__all__ = ["QuantizationReport", "quantize"]
