"""Translates TFLite models, quantised ones included."""
