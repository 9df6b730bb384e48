"""Independent random streams from one seed: each purpose has its own, whatever the others drew."""

import hashlib


def derive_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose, such as `derive_seed(seed, "order", epoch)`.

    The same on every machine. Two purposes, or two seeds, share nothing.
    """
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
