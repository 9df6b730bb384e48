"""Attention over embeddings as a function, for those who bring their own modules."""

from scalednl.ops.attention import attention_map, nonlocal_attention

__all__ = ["attention_map", "nonlocal_attention"]
