"""How right a model is, on examples whose answers are known.

``evaluate.py`` does it: ``data.py`` recognises the examples and how they are measured, a place (``place.py``) answers
them, ``findings.py`` says what of an answer is kept, a measure (``classification.py``, ``detection.py``, ...) counts.
"""
