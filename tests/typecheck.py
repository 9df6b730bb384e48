"""The checker that the import hook of `conftest` puts around every function of the package."""

from beartype import BeartypeConf, beartype

# An int is a float to every caller, as PEP 484 has it.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
