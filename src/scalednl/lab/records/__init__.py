"""What work leaves for readers: results and where they come from. Imports no torch."""

from scalednl.lab.records.origin import Origin, origin

__all__ = ["Origin", "origin"]
