"""One experiment in, one run directory out."""
