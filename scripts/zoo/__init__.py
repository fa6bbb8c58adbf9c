"""The networks that ``scripts/zoo_check`` exports, and the page that it writes."""
