"""The report page of ``armnet inspect --html``."""
