"""The block in the registry of mmengine: `dict(type="ScaledNonLocal2d", heads=8)` in a config."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from scalednl.integrations.framework_block import FrameworkBlock
from scalednl.integrations.requirement import require

_INSTALL = "mmcv-lite mmengine"
_cnn = require("mmcv.cnn", used_by=__name__, install=_INSTALL)
_registry = require("mmengine.registry", used_by=__name__, install=_INSTALL)


class ScaledNonLocal2d(FrameworkBlock):
    """A `scalednl.NonLocal2d` that mmcv, mmdetection and mmsegmentation build from a config.

    Plugins get `in_channels` from the network. `norm_cfg` describes the norm as elsewhere in mmcv,
    such as dict(type="SyncBN"); the other options are those of `scalednl.NonLocal2d`. In networks
    it is named as mmcv's own block is, so that weights of that one can be loaded into it.
    """

    _abbr_ = "nonlocal_block"

    def __init__(
        self, in_channels: int, *, norm_cfg: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        if norm_cfg is not None:
            if "norm_layer" in options:
                raise ValueError(f"norm_cfg={norm_cfg!r} excludes norm_layer: leave one out")

            def norm_layer(channels: int) -> nn.Module:
                return _cnn.build_norm_layer(dict(norm_cfg), channels)[1]

            options["norm_layer"] = norm_layer
        super().__init__(in_channels, **options)


_registry.MODELS.register_module(module=ScaledNonLocal2d)
