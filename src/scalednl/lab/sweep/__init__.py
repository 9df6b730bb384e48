"""Many runs, on this machine or on a cluster. Imports no torch."""
