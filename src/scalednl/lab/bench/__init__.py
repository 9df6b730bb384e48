"""Time and memory, measured so that they compare: interleaved, agreement checked first."""
