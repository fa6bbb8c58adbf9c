"""Writes pairs as TFLite models: ``export`` is the way in, ``rules`` translate operators, ``writer`` makes the file."""
