"""Passes that make operators between DequantizeLinear and QuantizeLinear compute on the integers themselves.

Such nets (ONNX's QDQ form) mean floats: the integers become floats, an operator computes on these, and its result
becomes integers again. An operator on integers rounds once, floats round many times. So results near the middle between
two integers may differ, by one step of the output's scale. ``optimize/integer_steps.py`` counts these and refuses any
that is larger.
"""
