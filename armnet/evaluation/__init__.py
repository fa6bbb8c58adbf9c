"""The accuracy of a model on examples whose answers are known.

``evaluate.py`` measures it: ``data.py`` recognises the examples and their measure, a place (``place.py``) answers them,
``findings.py`` says what is kept of an answer, and the measure (``classification.py``, ``detection.py``, ...) counts.
"""
