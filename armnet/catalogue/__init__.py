"""Models that others have published, ready to use. ``models.json`` only lists them; the models themselves are not
included.

``entries.py`` reads the list, ``download.py`` fetches files and checks their SHA-256, ``ready.py`` makes a pair with
labels and preprocessing.
"""
