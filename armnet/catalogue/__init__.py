"""Models that others have published, ready to use: ``models.json`` lists them, nothing of them is kept here.

``entries.py`` reads the list, ``download.py`` fetches files and holds them against their SHA-256, ``ready.py`` makes a
pair that knows its labels and how its inputs are prepared.
"""
