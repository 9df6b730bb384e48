"""Attention over embeddings as functions, for modules of your own."""

from scalednl.ops.attention import attention_map, nonlocal_attention

__all__ = ["attention_map", "nonlocal_attention"]
