"""Attentions of a user's own: their functions over embeddings, and a trial before the first use.

A function sees theta (batch, heads, queries, d) and phi, g (batch, heads, keys, d). With the view
"magnitude" the vectors are (|v|, 0, ..., 0), so that d stays what it is.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from scalednl.attentions import ATTENTIONS, AttentionKind, Function
from scalednl.ops.views import Heads, apply_view
from scalednl.options import View

Keys = Float[Tensor, "batch heads keys width"]
Map = Float[Tensor, "batch heads pixels keys"]
KeyMask = Bool[Tensor, "batch keys"]
TOLERANCE = 1e-8
"""Largest difference between an order and the reference, relative to the largest number"""
NEGLIGIBLE = 1e-3
"""Smaller numbers are compared as if they were of this size: some gradients are rounding alone"""
SIZES = ((5, 7), (6, 6), (3, 1))
"""Queries and keys of a trial"""
_tried: set[tuple[AttentionKind, tuple[Function, ...]]] = set()


def is_own(attention: str) -> bool:
    """Whether the attention is a function of a user's own."""
    return ATTENTIONS[attention].form == "own"


def own_map(theta: Heads, phi: Keys, attention: str, key_mask: KeyMask | None = None) -> Map:
    """A by the reference, theta and phi as a view shows them; columns of hidden keys are 0."""
    kind = ready(attention)
    if key_mask is None:
        return _map(kind, theta, phi)
    maps = theta.new_zeros(*theta.shape[:3], phi.shape[2])
    for image, valid in enumerate(key_mask):
        if valid.any():
            one = slice(image, image + 1)
            maps[one, :, :, valid] = _map(kind, theta[one], phi[one][:, :, valid]).to(maps.dtype)
    return maps


def own_attention(
    theta: Heads,
    phi: Keys,
    g: Keys,
    attention: str,
    order: str = "quadratic",
    key_mask: KeyMask | None = None,
) -> Heads:
    """y = A g by the reference, "quadratic", or by another order that was registered with it."""
    kind = ready(attention)
    if key_mask is None:
        return _attend(kind, order, theta, phi, g)
    # Keys that do not exist are left out, image by image: no function has to know of masks.
    found = []
    for image, valid in enumerate(key_mask):
        one = slice(image, image + 1)
        keys, values = phi[one][:, :, valid], g[one][:, :, valid]
        some = bool(valid.any())
        y = _attend(kind, order, theta[one], keys, values) if some else 0 * theta[one]
        found.append(y)
    return torch.cat(found) if found else 0 * theta


def seen_by_own(split: Heads, view: View) -> Heads:
    """The vectors as a view shows them to a function of a user's own: always d channels."""
    seen = apply_view(split, view)
    return F.pad(seen, (0, split.shape[-1] - seen.shape[-1]))


def ready(attention: str) -> AttentionKind:
    """The attention, after a trial; raise in one sentence where its functions cannot be used."""
    kind = ATTENTIONS[attention]
    if kind.function is None:
        raise ValueError(
            f"attention={attention!r} is known by name alone: import the file that registers it "
            "(on the command line: --code FILE)"
        )
    if not torch.compiler.is_compiling():
        key = (kind, tuple(kind.orders.values()))
        if key not in _tried:
            # Not where the caller makes its weights, such as "meta", nor from the caller's numbers.
            with (
                torch.device("cpu"),
                torch.random.fork_rng(devices=[]),
                torch.inference_mode(False),
                torch.enable_grad(),
            ):
                for queries, keys in SIZES:
                    _try(kind, queries, keys)
            _tried.add(key)
    return kind


def _map(kind: AttentionKind, theta: Heads, phi: Keys) -> Map:
    assert kind.function is not None
    if kind.gives_map:
        return kind.function(theta, phi)
    # y of values that are 1 at one key and 0 at the others is that key's column.
    keys = phi.shape[2]
    values = torch.eye(keys, dtype=phi.dtype, device=phi.device)
    return kind.function(theta, phi, values.expand(*phi.shape[:2], keys, keys))


def _attend(kind: AttentionKind, order: str, theta: Heads, phi: Keys, g: Keys) -> Heads:
    if order != "quadratic":
        return kind.orders[order](theta, phi, g)
    if kind.gives_map:
        return _map(kind, theta, phi) @ g
    assert kind.function is not None
    return kind.function(theta, phi, g)


def _try(kind: AttentionKind, queries: int, keys: int) -> None:
    """Raise unless the functions give what they must on small random embeddings."""
    generator = torch.Generator().manual_seed(queries)
    shapes = [(2, 2, queries, 3), (2, 2, keys, 3), (2, 2, keys, 3)]
    theta, phi, g = (
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    )
    what = f"attention {kind.name!r}"
    a = _called(what, kind.function, theta, phi, *([] if kind.gives_map else [g]))
    if kind.gives_map:
        _check(what, "the map (batch, heads, queries, keys)", a, (2, 2, queries, keys), theta)
        y = a @ g
    else:
        y = a
        _check(what, "y (batch, heads, queries, d)", y, tuple(theta.shape), theta)
        columns = _called(what, lambda *v: _map(kind, *v), theta, phi)
        full = (2, 2, queries, keys)
        _check(what, "for g of any number of channels, y of as many", columns, full, theta)
        if _difference(columns @ g, y) > TOLERANCE:
            raise ValueError(f"{what} is not linear in g: y must be A g with a map A")
    if _difference(_attend(kind, "quadratic", theta, phi, g), y) > TOLERANCE:
        raise ValueError(f"{what} is random: two calls with the same embeddings differ")
    _check_leaves(what, y, theta, phi, g)
    alone = _attend(kind, "quadratic", theta[:1], phi[:1], g[:1])
    if _difference(alone, y[:1]) > TOLERANCE:
        raise ValueError(f"{what} mixes the images of a batch: y of one image depends on others")
    slopes = _gradients(what, y, theta, phi, g)
    for name, moved, slope in (
        ("theta", (1.5 * theta, phi), slopes[0]),
        ("phi", (theta, 1.5 * phi), slopes[1]),
    ):
        depends = _difference(_attend(kind, "quadratic", *moved, g), y) > TOLERANCE
        if depends and not slope.any():
            raise ValueError(
                f"{what} depends on {name}, but gives it no gradient: was it detached?"
            )
    for order, function in kind.orders.items():
        where = f"the order {order!r} of {what}"
        fast = _called(where, function, theta, phi, g)
        _check(where, "y (batch, heads, queries, d)", fast, tuple(theta.shape), theta)
        pairs = zip((y, *slopes), (fast, *_gradients(where, fast, theta, phi, g)), strict=True)
        worst = max(_difference(found, wanted) for wanted, found in pairs)
        if worst > TOLERANCE:
            raise ValueError(
                f"{where} differs from its reference by {worst:.1e} of the largest number, in "
                f"values or gradients, with {queries} queries and {keys} keys"
            )


def _check_leaves(what: str, y: Tensor, *embeddings: Tensor) -> None:
    """Raise if y depends on a learned tensor of the function's own."""
    waiting, seen = [y.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and not any(leaf is value for value in embeddings):
            raise ValueError(
                f"{what} depends on a learned tensor of its own, which a block would neither train "
                "nor store: an attention is a function of theta, phi and g alone"
            )
        waiting += [parent for parent, _ in node.next_functions]


def _called(what: str, function: Function | None, *embeddings: Tensor) -> Tensor:
    assert function is not None
    try:
        return function(*embeddings)
    except Exception as error:
        shapes = ", ".join(str(tuple(value.shape)) for value in embeddings)
        reason = " ".join(str(error).split())[:300]
        raise ValueError(
            f"{what} failed on embeddings of shapes {shapes}: {type(error).__name__}: {reason}"
        ) from error


def _check(what: str, wanted: str, value: object, shape: tuple[int, ...], like: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"{what} must return {wanted}, but returned a {type(value).__name__}")
    if tuple(value.shape) != shape or value.dtype != like.dtype:
        raise ValueError(
            f"{what} must return {wanted} = {shape} in {like.dtype}, but returned "
            f"{tuple(value.shape)} in {value.dtype}"
        )
    if not value.isfinite().all():
        raise ValueError(f"{what} returns numbers that are not finite for embeddings of size 1")


def _gradients(what: str, y: Tensor, *embeddings: Tensor) -> tuple[Tensor, ...]:
    """Gradients of a weighted sum of y; 0 where y does not depend on an embedding."""
    if not y.requires_grad:
        return tuple(torch.zeros_like(value) for value in embeddings)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    total = (y * weights).sum()
    found = torch.autograd.grad(total, embeddings, retain_graph=True, allow_unused=True)
    pairs = zip(found, embeddings, strict=True)
    slopes = tuple(torch.zeros_like(v) if slope is None else slope for slope, v in pairs)
    if not all(slope.isfinite().all() for slope in slopes):
        raise ValueError(f"{what} has gradients that are not finite for embeddings of size 1")
    return slopes


def _difference(found: Tensor, wanted: Tensor) -> float:
    size = max(float(wanted.detach().abs().max()), NEGLIGIBLE)
    return float((found - wanted).detach().abs().max()) / size
