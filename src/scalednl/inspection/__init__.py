"""What the blocks of a network attend to: maps, scores, ablations."""

from scalednl.inspection.capture import BlockAttention, Capture, capture_attention

__all__ = ["BlockAttention", "Capture", "capture_attention"]
