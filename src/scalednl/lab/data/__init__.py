"""Data sets: files to uint8 arrays to augmented batches on the device."""

from scalednl.lab.data.load import load_data
from scalednl.lab.data.splits import ImageData, Split

__all__ = ["ImageData", "Split", "load_data"]
