"""Many experiments into many run directories, on this machine or on many. Imports no torch."""
