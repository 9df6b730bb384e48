"""A network from elsewhere tried on the images, so that what cannot work fails at once."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from scalednl.errors import UsageError, described
from scalednl.models.probe import undisturbed, words
from scalednl.safetensors_file import NAMES

Images = Float[Tensor, "batch 3 height width"]


def check_parts(network: nn.Module, name: str) -> None:
    """Raise unless something in a network can be trained, and everything in it be stored."""
    if isinstance(network, torch.jit.ScriptModule):
        raise UsageError(f"{name} is a ScriptModule: return the module that it was made from")
    parameters = list(network.parameters())
    if any(is_lazy(p) for p in parameters):
        raise UsageError(f"{name} has lazy modules: give them their sizes, so that a seed counts")
    if not any(p.requires_grad for p in parameters):
        raise UsageError(f"{name} has no parameters that can be trained")
    for key, value in network.state_dict().items():
        if not isinstance(value, Tensor) or value.dtype not in NAMES:
            kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise UsageError(f"{name} cannot be stored: {key} is of type {kind}")


def check_scores(network: nn.Module, name: str, images: Images, num_classes: int) -> None:
    """Raise unless a network gives class scores for images, the same ones each time."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with undisturbed(network), torch.no_grad():
        try:
            first, second = network(images), network(images)
        except Exception as error:  # any network, any error
            raise UsageError(
                f"{name} does not run on images of {_size(images)} pixels, channels last: "
                f"{described(error)}"
            ) from error
    wanted = len(images), num_classes
    if not isinstance(first, Tensor) or first.shape != wanted or not first.is_floating_point():
        raise UsageError(
            f"{name} must return class scores, a tensor of shape {wanted} for {len(images)} "
            f"images, got {words(first)}"
        )
    if not first.isfinite().all():
        raise UsageError(f"{name} gives scores that are not finite before it is trained")
    if not torch.equal(first, second):
        raise UsageError(
            f"{name} gives different scores for the same images in evaluation mode: its tests "
            "could not be repeated"
        )


def check_step(network: nn.Module, name: str, images: Images, world: int = 1) -> None:
    """Raise unless a network can be trained on a batch as small as this."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    with undisturbed(network), torch.enable_grad():
        network.train()
        try:
            loss = F.cross_entropy(network(images).float(), torch.zeros(len(images)).long())
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        except Exception as error:  # any network, any error
            raise UsageError(
                f"{name} cannot be trained on {len(images)} of these images, the smallest part of "
                f"an epoch: {described(error)}; another --batch, --limit or --accumulate changes "
                "how many there are"
            ) from error
    if world > 1 and any(gradient is None for gradient in gradients):
        raise UsageError(
            f"{name} has parameters that its scores do not depend on, which several processes "
            "cannot train: freeze or remove them, or use one process"
        )


def _size(images: Tensor) -> str:
    return " x ".join(map(str, images.shape[2:]))
