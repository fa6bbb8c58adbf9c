"""Winograd's convolutions for machines that multiply and add number by number: transforms are sums of whole planes."""
