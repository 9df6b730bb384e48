"""The paper: its printed numbers and its recipes. Imports no torch."""
