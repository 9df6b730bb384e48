"""Theta and phi in few bits, from which a page computes the attention of any pixel."""

import io
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from scalednl.inspection.capture import BlockAttention
from scalednl.inspection.factors import Factors
from scalednl.lab.records.attention import Vectors

LARGEST = 1_200_000
"""Letters of the vectors in one record: images are left out from the end until they fit"""
WIDEST = 32
"""Channels for a map that is no product of embeddings: its largest singular values"""
LARGEST_PICTURES = 3_000_000
"""Bytes of the pictures in one record"""
Bits = Literal[8, 16]
BITS: tuple[Bits, ...] = (16, 8)
"""Bits of a number; the smaller number is used where the larger would leave images out"""


def explorer_block(seen: BlockAttention, image: int, bits: Bits) -> Vectors:
    """One block's vectors for one image, as its attention sees them, and the error of their rows.

    Every vector is a scale times integers of that many bits, in a basis in which rounding does
    least harm; products are those of theta and phi.
    """
    factors = seen.factors.at(image)
    even = evened(factors)
    theta, theta_scale = quantise(even.theta, bits)
    phi, phi_scale = quantise(even.phi, bits)
    again = Factors(
        theta * theta_scale[..., None], phi * phi_scale[..., None], factors.factor, factors.softmax
    )
    return Vectors(
        bits=bits,
        theta=_bytes(theta, f"<i{bits // 8}"),
        theta_scale=_bytes(theta_scale, "<f4"),
        phi=_bytes(phi, f"<i{bits // 8}"),
        phi_scale=_bytes(phi_scale, "<f4"),
        width=even.theta.shape[-1],
        factor=tuple(factors.factor.tolist()),
        row_error=row_error(again, factors),
    )


def _bytes(values: Tensor, kind: str) -> bytes:
    return values.cpu().numpy().astype(kind).tobytes()


def evened(factors: Factors) -> Factors:
    """The same maps, with theta and phi of one size that is spread evenly over their channels.

    With the singular value decomposition theta phi^T = U S V^T they become U sqrt(S) D and
    V sqrt(S) D, D the cosine transform. Softmax does not see what all keys share, so the mean of
    phi is taken out first. On trained networks this halves the largest error of a row. A map that
    is no product of embeddings is shown by its `WIDEST` largest singular values.
    """
    phi = factors.phi.double()
    if factors.softmax:
        phi = phi - phi.mean(-2, keepdim=True)
    (q, r), (keys_q, keys_r) = (torch.linalg.qr(v) for v in (factors.theta.double(), phi))
    u, sizes, v = torch.linalg.svd(r @ keys_r.mT, full_matrices=False)
    width = _width(factors)
    u, sizes, v = u[..., :width], sizes[..., :width], v[..., :width, :]
    spread = sizes.sqrt()[..., None] * _cosines(width).to(sizes)
    theta, phi = q @ u @ spread, keys_q @ v.mT @ spread
    dtype = factors.theta.dtype
    return Factors(theta.to(dtype), phi.to(dtype), factors.factor, factors.softmax)


def _width(factors: Factors) -> int:
    """Channels of the vectors that stand for the factors."""
    width = factors.theta.shape[-1]
    rank = min(width, factors.queries, factors.keys)
    return rank if factors.is_product else min(rank, WIDEST)


def _cosines(n: int) -> Float[Tensor, "{n} {n}"]:
    """The orthogonal cosine transform."""
    steps = torch.arange(n, dtype=torch.float64)
    angles = steps[:, None] * (2 * steps + 1) * (torch.pi / (2 * n))
    rows = angles.cos() * (2 / n) ** 0.5
    rows[0] /= 2**0.5
    return rows


def quantise(
    vectors: Float[Tensor, "heads n width"], bits: int
) -> tuple[Float[Tensor, "heads n width"], Float[Tensor, "heads n"]]:
    """Integers of that many bits, and the factor of each vector."""
    scale = vectors.float().abs().amax(-1) / (2 ** (bits - 1) - 1)
    safe = torch.where(scale > 0, scale, 1)
    return (vectors.float() / safe[..., None]).round(), scale


def row_error(found: Factors, exact: Factors) -> float:
    """max over rows of max_j |A'_ij - A_ij| / max_j |A_ij|; rows of zeros do not count."""
    largest = 0.0
    for rows, truth in zip(found.chunks(), exact.chunks(), strict=True):
        sizes = truth.abs().amax(-1)
        errors = (rows - truth).abs().amax(-1) / torch.where(sizes > 0, sizes, 1)
        largest = max(largest, float(errors.max()))
    return largest


def encode_png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """An image as a PNG file."""
    target = io.BytesIO()
    Image.fromarray(pixels).save(target, "PNG", optimize=True)
    return target.getvalue()


def letters_of(blocks: Sequence[BlockAttention], bits: int) -> int:
    """The number of letters that the vectors of one image take."""
    total = 0
    for seen in blocks:
        factors = seen.factors
        width = _width(factors)
        total += factors.theta.shape[1] * (factors.queries + factors.keys) * (width * bits // 8 + 4)
    return total * 4 // 3
