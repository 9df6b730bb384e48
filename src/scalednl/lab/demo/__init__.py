"""The main job in miniature: three networks trained on generated images, their cost, one page."""
