"""Networks: those of the paper by name, and blocks put into anybody's own."""

from scalednl.models.registry import create_model, list_models

__all__ = ["create_model", "list_models"]
