"""Tabular models: ONNX's domain ai.onnx.ml, as exports from scikit-learn, XGBoost, LightGBM and CatBoost use it."""
