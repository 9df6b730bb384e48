"""The best rank-one approximation of attention maps.

Without softmax it follows from QR factors of theta and phi, and no map is formed. With softmax the
maps of a group are formed and iterated on.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from scalednl.inspection.factors import Factors

BLOCK = 8
"""Vectors that are iterated together: convergence depends on the gap to the ninth singular value"""
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-12}
NEGLIGIBLE = 1e-30
STEPS = 100
"""Iterations before the eigenvectors of A^T A are computed instead"""


@dataclass(frozen=True)
class RankOne:
    """left_i right_j is the best rank-one approximation of A_ij in the sum of squares."""

    left: Float[Tensor, "*maps queries"]
    """A v = sigma_1 u, with u and v the first singular vectors"""
    right: Float[Tensor, "*maps keys"]
    """v"""
    energy: Float[Tensor, "*maps"]
    """sigma_1^2 / sum of all sigma^2; 0 for a map of zeros"""


def rank_one(maps: Factors) -> RankOne:
    """The approximation of every map, in the precision of its factors.

    Softmax maps are iterated until |A^T A v - sigma^2 v| <= TOLERANCE sigma^2. The relative error
    of sigma^2 is then at most TOLERANCE, and its square over the relative gap to the next.
    """
    if not maps.softmax:
        return _from_factors(maps)
    parts = [iterated(group.complete()) for group in maps.groups()]
    shape = maps.factor.shape
    return RankOne(
        torch.cat([part.left for part in parts]).reshape(*shape, -1),
        torch.cat([part.right for part in parts]).reshape(*shape, -1),
        torch.cat([part.energy for part in parts]).reshape(shape),
    )


def _from_factors(maps: Factors) -> RankOne:
    """theta = Q R, phi = Q' R': the singular values of theta phi^T are those of R R'^T."""
    (q, r), (keys_q, keys_r) = (
        torch.linalg.qr(v) for v in (maps.theta * maps.factor[..., None, None], maps.phi)
    )
    u, sizes, v = torch.linalg.svd(r @ keys_r.mT, full_matrices=False)
    squares = sizes.square()
    left = q @ (u[..., :1] * sizes[..., None, :1])
    return RankOne(
        left.squeeze(-1),
        (keys_q @ v.mT[..., :1]).squeeze(-1),
        _share(squares[..., 0], squares.sum(-1)),
    )


def iterated(a: Float[Tensor, "maps queries keys"]) -> RankOne:
    """Subspace iteration with A^T A, from the column means and fixed random vectors."""
    tolerance = TOLERANCE[a.dtype]
    width = min(BLOCK, *a.shape[1:])
    noise = torch.randn(width - 1, a.shape[2], generator=Generator().manual_seed(0))
    rows = torch.cat([a.mean(1, keepdim=True), noise.to(a).expand(len(a), -1, -1)], 1)
    for _ in range(STEPS):
        basis = torch.linalg.qr(rows.mT).Q.mT
        # Few rows from the left: batched products with few columns from the right take 5 x longer.
        image = basis @ a.mT
        rows = image @ a
        value, top = _largest_eigenpair(image)
        right = top @ basis
        residual = (top @ rows - value * right).norm(dim=-1)
        if (residual <= tolerance * value.squeeze(-1)).all():
            return _of_vector(a, right)
        # A second step before the next orthogonalisation, which takes as long as both products.
        rows = (rows @ a.mT) @ a
    return _of_vector(a, torch.linalg.eigh(a.mT @ a).eigenvectors[..., -1:].mT)


def _largest_eigenpair(
    rows: Float[Tensor, "maps width queries"],
) -> tuple[Float[Tensor, "maps 1 1"], Float[Tensor, "maps 1 width"]]:
    """The largest eigenvalue of rows rows^T, with its eigenvector.

    In float64 and without negligible entries, because LAPACK fails on subnormal numbers, which
    attention to a single key leads to.
    """
    wide = rows.double()
    products = wide @ wide.mT
    negligible = NEGLIGIBLE * products.abs().amax((-2, -1), keepdim=True)
    products = torch.where(products.abs() > negligible, products, 0)
    values, vectors = torch.linalg.eigh(products)
    return values[:, -1:, None].to(rows), vectors[..., -1:].mT.to(rows)


def _of_vector(
    a: Float[Tensor, "maps queries keys"], right: Float[Tensor, "maps 1 keys"]
) -> RankOne:
    left = (right @ a.mT).squeeze(1)
    energy = _share(left.square().sum(-1), a.square().sum((-2, -1)))
    return RankOne(left, right.squeeze(1), energy)


def _share(part: Tensor, total: Tensor) -> Tensor:
    return torch.where(total > 0, part / torch.where(total > 0, total, 1), 0).clamp(max=1)
