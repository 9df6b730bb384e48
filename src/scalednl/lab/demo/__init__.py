"""The demonstration: three networks trained on generated images, their cost, one page."""
