"""Trained networks to evidence: attention maps, scores, figures and their record."""

from scalednl.inspection.capture import BlockAttention, Capture, capture_attention

__all__ = ["BlockAttention", "Capture", "capture_attention"]
