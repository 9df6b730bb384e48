"""Tracers that cannot look into a module: in torch.fx it is one node, TorchScript is refused."""

from typing import Any, NoReturn

from torch import nn
from torch.fx import Proxy


def fx_node(module: nn.Module, x: Any, **named: Any) -> Any:
    """The module's result as one node of the fx graph that x is traced into; None if x is no proxy.

    A proxy has no shape, from which a block picks its order. This works with the tracer of any
    library (feature extraction, quantisation), because no tracer has to know of it.
    """
    if not isinstance(x, Proxy):
        return None
    if not (path := x.tracer.path_of_module(module)):  # type: ignore[attr-defined]
        raise ValueError(
            f"torch.fx treats a {type(module).__name__} as one node, so it cannot be traced alone: "
            "trace the network around it, or use torch.export.export"
        )
    given = {name: value for name, value in named.items() if value is not None}
    return x.tracer.create_proxy("call_module", path, (x,), given)


def refuse_torchscript(block: nn.Module) -> NoReturn:
    """Raise with what to use instead of torch.jit."""
    raise RuntimeError(
        f"{type(block).__name__} picks its order from the shape of its input, which TorchScript "
        "(torch.jit.trace, torch.jit.script, torch.onnx.export without dynamo=True) cannot record: "
        "use torch.export.export, or scalednl.export_model"
    )
