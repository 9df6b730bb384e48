"""Pure tensor functions: the orders of multiplication, the views, moments, and the planner."""
