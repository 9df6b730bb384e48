"""`python -m scalednl` is the command line."""

from scalednl.cli import main

main()
