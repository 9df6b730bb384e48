"""Attention maps by their factors theta and phi, from which every row, mean and score follows.

A map has as many entries as there are pairs of pixels; theta and phi grow with the pixels alone.
Whatever needs entries gets them some rows at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

CHUNK = 1 << 20
"""Entries that are formed at once: 4 MB in float32"""
LARGEST_MAP = 1 << 24
"""Entries of the largest map that is formed at once: 64 MB in float32, 4096 pixels squared"""

KeyMean = Float[Tensor, "*maps keys"]
RowsOfMap = Float[Tensor, "*maps rows keys"]


def is_large_map(queries: int, keys: int) -> bool:
    """Whether a map is too large to be formed at once."""
    return queries * keys > LARGEST_MAP


def images_at_once(heads: int, queries: int, keys: int) -> int:
    """How many images have all of their maps in memory at once."""
    return max(1, LARGEST_MAP // (heads * queries * keys))


def check_map_size(queries: int, keys: int, itemsize: int) -> None:
    """Raise if a map is too large to be formed at once."""
    if is_large_map(queries, keys):
        entries = queries * keys
        size = entries * itemsize / 2**20
        raise ValueError(
            f"a map of {queries:,} queries x {keys:,} keys has {entries:,} entries "
            f"({size:,.0f} MiB), and at most {LARGEST_MAP:,} fit at once: use rows"
        )


@dataclass(frozen=True)
class Factors:
    """A_ij = f theta_i . phi_j, or softmax_j of it; any number of maps side by side.

    theta and phi are as the attention sees them: of length 1 for the view "magnitude", unit vectors
    for "direction", phi minus its mean where keys are centred. `mean_added` says whether A has 1 /
    keys in addition. Keys outside `exist` do not exist: their phi and their columns are 0. A map
    that is no product of embeddings is its own theta, and phi the unit matrix: `is_product` False.
    """

    theta: Float[Tensor, "*maps queries seen"]
    phi: Float[Tensor, "*maps keys seen"]
    factor: Float[Tensor, "*maps"]
    softmax: bool
    mean_added: bool = False
    exist: Bool[Tensor, " keys"] | None = None
    is_product: bool = True

    @property
    def queries(self) -> int:
        """Rows of a map."""
        return self.theta.shape[-2]

    @property
    def keys(self) -> int:
        """Columns of a map."""
        return self.phi.shape[-2]

    @property
    def entries(self) -> int:
        """Numbers in one map."""
        return self.queries * self.keys

    @property
    def is_large(self) -> bool:
        """Whether a map is too large to be formed at once."""
        return is_large_map(self.queries, self.keys)

    def rows(self, queries: slice | Sequence[int]) -> RowsOfMap:
        """A of these queries, of every map."""
        chosen = self.theta[..., queries if isinstance(queries, slice) else list(queries), :]
        logits = (chosen * self.factor[..., None, None]) @ self.phi.mT
        hidden = None if self.exist is None else ~self.exist
        if self.softmax:
            if hidden is not None and not hidden.all():
                logits = logits.masked_fill(hidden, float("-inf"))
            a = logits.softmax(-1)
        else:
            a = logits + self.added
        return a if hidden is None else a.masked_fill(hidden, 0)

    @property
    def added(self) -> float | KeyMean:
        """What the column of every key has in addition to f theta_i . phi_j."""
        if not self.mean_added:
            return 0.0
        if self.exist is None:
            return 1 / self.keys
        return self.exist.to(self.phi.dtype) / self.exist.sum().clamp_min(1)

    def as_product(self) -> "Factors":
        """The same maps without softmax as a product alone: what is added is one more channel."""
        if not self.mean_added:
            return self
        added = torch.as_tensor(self.added, dtype=self.phi.dtype, device=self.phi.device)
        more = added.expand(self.phi.shape[:-1])[..., None]
        ones = self.theta.new_ones((*self.theta.shape[:-1], 1)) / self.factor[..., None, None]
        return Factors(
            torch.cat([self.theta, ones], -1), torch.cat([self.phi, more], -1), self.factor, False
        )

    def chunks(self) -> Iterator[RowsOfMap]:
        """All rows in order, so many at a time that they stay small."""
        maps = max(1, self.factor.numel())
        step = max(1, CHUNK // (maps * self.keys))
        for first in range(0, self.queries, step):
            yield self.rows(slice(first, first + step))

    def complete(self) -> Float[Tensor, "*maps queries keys"]:
        """The maps, entry by entry; refused where one is larger than LARGEST_MAP."""
        check_map_size(self.queries, self.keys, self.theta.element_size())
        return self.rows(slice(None))

    def groups(self) -> Iterator["Factors"]:
        """All maps in order along one axis, so many at a time that they can be formed entirely."""
        theta, phi = (v.reshape(-1, *v.shape[-2:]) for v in (self.theta, self.phi))
        factor = self.factor.reshape(-1)
        step = max(1, CHUNK // self.entries)
        for first in range(0, len(factor), step):
            part = slice(first, first + step)
            yield replace(self, theta=theta[part], phi=phi[part], factor=factor[part])

    def finite(self) -> Bool[Tensor, "*maps"]:
        """Which maps have finite factors only."""
        found = self.factor.isfinite()
        for vectors in (self.theta, self.phi):
            found = found & vectors.isfinite().flatten(-2).all(-1)
        return found

    def double(self) -> "Factors":
        """The same maps in float64."""
        theta, phi, factor = (v.double() for v in (self.theta, self.phi, self.factor))
        return replace(self, theta=theta, phi=phi, factor=factor)

    def row_mean(self) -> Float[Tensor, "*maps queries"]:
        """mean_j A_ij over all columns: f theta_i . mean(phi), with softmax 1 / keys."""
        some = float(self.exist is None or bool(self.exist.any()))
        if self.softmax:
            return self.theta.new_full(self.theta.shape[:-1], some / self.keys)
        mean = self.phi.mean(-2, keepdim=True) * self.factor[..., None, None]
        # What is added to a row sums to 1.
        return (self.theta @ mean.mT).squeeze(-1) + self.mean_added * some / self.keys

    def column_mean(self) -> KeyMean:
        """mean_i A_ij, what each key gets on average: without softmax f mean(theta) . phi_j."""
        if not self.softmax:
            mean = self.theta.mean(-2, keepdim=True) * self.factor[..., None, None]
            return (mean @ self.phi.mT).squeeze(-2) + self.added
        total = sum(rows.sum(-2, dtype=torch.float64) for rows in self.chunks())
        assert isinstance(total, Tensor)
        return (total / self.queries).to(self.theta.dtype)

    def at(self, *index: int) -> "Factors":
        """One of the maps."""
        theta, phi, factor = self.theta[index], self.phi[index], self.factor[index]
        return replace(self, theta=theta, phi=phi, factor=factor)
