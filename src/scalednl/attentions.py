"""Every attention by name: the table that everything else looks names up in. Imports no torch.

| name | A_ij | form |
|---|---|---|
| `scaled` | theta_i . phi_j / sqrt(N d), the paper's | dot product |
| `softmax` | softmax_j(t theta_i . phi_j) | softmax |
| `mean` | theta_i . phi_j / N, the dot-product form of the original | dot product |

Others are functions of a user's own, registered with `register_attention`.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, overload

Form = Literal["dot_product", "softmax", "own"]
Function = Callable[..., Any]
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
RESERVED = (
    *("plain", "same", "base", "magnitude", "direction", "he", "maps", "both"),
    *("without", "neither"),
)
"""Names that stand for something else: no blocks, views, and columns of tables"""
OWN_ORDERS = ("associative", "fused")
"""Orders that can be registered with an attention beside "quadratic", its reference"""


@dataclass(frozen=True, eq=False)
class AttentionKind:
    """One attention: what blocks with its name compute, and which options they have."""

    name: str
    form: Form = "own"
    """"dot_product": A_ij = f theta_i . phi_j, which is linear in the pixels; "softmax" of that
    over j; "own": `function`"""
    init: str | float = "he"
    """How the convolutions start unless told otherwise"""
    colour: str = "purple"
    """In charts"""
    in_paper: bool = False
    has_pixel_factor: bool = False
    """Whether A has 1/sqrt(N), which `scale` drops and `reference_pixels` replaces"""
    function: Function | None = None
    """For an own attention: (theta, phi) -> A, or (theta, phi, g) -> y. None where only a record
    names it"""
    gives_map: bool = True
    """Whether `function` returns A, not y"""
    orders: dict[str, Function] = field(default_factory=dict)
    """Faster functions (theta, phi, g) -> y of an own attention"""

    def __call__(self, *embeddings: Any) -> Any:
        """`function`, so that the decorated name can still be called."""
        if self.function is None:
            raise TypeError(f"attention {self.name!r} has no function")
        return self.function(*embeddings)

    def order(self, name: str) -> Callable[[Function], Function]:
        """A decorator that registers a faster way to compute y = A g.

        The function takes theta (batch, heads, queries, d), phi and g (batch, heads, keys, d), and
        returns y in theta's shape. Before the first use it is compared with the reference, in
        values and gradients. `order="auto"` uses it, "associative" rather than "fused".
        """
        if name not in OWN_ORDERS:
            raise ValueError(f"order={name!r} cannot be registered: use {' or '.join(OWN_ORDERS)}")

        def register(function: Function) -> Function:
            if _positional(function) != 3:
                raise ValueError(
                    f"the order {name!r} of attention {self.name!r} must take (theta, phi, g) and "
                    f"return y, but it takes {inspect.signature(function)}"
                )
            self.orders[name] = function
            return function

        return register


ATTENTIONS: dict[str, AttentionKind] = {
    kind.name: kind
    for kind in (
        AttentionKind("scaled", "dot_product", colour="blue", in_paper=True, has_pixel_factor=True),
        AttentionKind("softmax", "softmax", init=0.01, colour="red", in_paper=True),
        AttentionKind("mean", "dot_product", colour="green"),
    )
}
BUILT_IN = tuple(ATTENTIONS)
_OWN_COLOURS = ("purple", "green")


@overload
def register_attention(function: Function) -> AttentionKind: ...


@overload
def register_attention(*, name: str | None = None) -> Callable[[Function], AttentionKind]: ...


def register_attention(
    function: Function | None = None, *, name: str | None = None
) -> AttentionKind | Callable[[Function], AttentionKind]:
    """Make an attention of your own available under its function's name, as a decorator.

    >>> @scalednl.register_attention
    ... def sigmoid(theta, phi):
    ...     n, d = phi.shape[-2:]
    ...     return torch.sigmoid(theta @ phi.mT / d**0.5) / n

    The function is the reference: it takes theta (batch, heads, queries, d) and phi (batch, heads,
    keys, d) and returns the map A (batch, heads, queries, keys); or it takes g (batch, heads, keys,
    d) too and returns y = A g in theta's shape. Then `NonLocal2d(64, attention="sigmoid")`,
    `functional`, `create_model`, `insert_nonlocal`, `capture_attention` and the lab know it. With
    the view "magnitude" a vector v is (length of v, 0, ..., 0), with "direction" it has length 1.

    Args:
        function: the reference.
        name: another name than the function's.
    """
    if function is None:
        return lambda given: _register(given, name)
    return _register(function, name)


def declare_attention(name: str) -> None:
    """Accept a name that a record has, so that it can be read; blocks cannot be made with it."""
    if NAME.fullmatch(name) and name not in RESERVED and name not in ATTENTIONS:
        ATTENTIONS[name] = AttentionKind(name)


def paper_attentions() -> list[str]:
    """Names of the attentions that the paper compares, in the order of its tables."""
    paper = [kind for kind in ATTENTIONS.values() if kind.in_paper]
    return [kind.name for kind in sorted(paper, key=lambda kind: kind.form != "softmax")]


def known_attentions() -> list[str]:
    """Names of the attentions that can be computed."""
    return [*BUILT_IN, *own_attentions()]


def own_attentions() -> list[str]:
    """Names of the attentions that can be computed and are not built in."""
    return [kind.name for kind in ATTENTIONS.values() if kind.function is not None]


def _register(function: Function, name: str | None) -> AttentionKind:
    if not callable(function):
        raise ValueError(f"register_attention takes a function, but got {function!r}")
    if inspect.isclass(function) or hasattr(function, "named_parameters"):
        raise ValueError(
            "register_attention takes a function of theta and phi: classes, and modules with "
            "parameters of their own, are not supported"
        )
    name = getattr(function, "__name__", "") if name is None else name
    if not isinstance(name, str) or not NAME.fullmatch(name) or name in (*BUILT_IN, *RESERVED):
        raise ValueError(
            f"an attention cannot be called {name!r}: give register_attention(name=...) with "
            "lower-case letters, digits and underscores, and none of "
            f"{', '.join((*BUILT_IN, *RESERVED))}"
        )
    parameters = _positional(function)
    if parameters not in (2, 3):
        raise ValueError(
            f"attention {name!r} must take (theta, phi) and return the map A, or (theta, phi, g) "
            f"and return y, but it takes {inspect.signature(function)}"
        )
    there = ATTENTIONS.get(name)
    before = None if there is None else there.function
    if before is not None and _home(before) != _home(function):
        raise ValueError(
            f"attention {name!r} is already registered by {_home(before)}: choose another name"
        )
    number = sum(kind.form == "own" for kind in ATTENTIONS.values() if kind is not there)
    ATTENTIONS[name] = kind = AttentionKind(
        name,
        colour=_OWN_COLOURS[number % len(_OWN_COLOURS)],
        function=function,
        gives_map=parameters == 2,
    )
    return kind


def _positional(function: Function) -> int:
    """How many arguments it must be given; -1 where that cannot be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return -1
    needed = [p for p in parameters if p.default is p.empty]
    if any(p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY) for p in needed):
        return -1
    return len([p for p in needed if p.kind is not p.VAR_KEYWORD])


def _home(function: Function) -> str:
    """Where a function was written: the same for a cell or file that is executed again."""
    code = getattr(function, "__code__", None)
    module = str(getattr(function, "__module__", ""))
    file = "" if module == "__main__" or code is None else code.co_filename
    return f"{getattr(function, '__qualname__', function)} of {file or module}"
