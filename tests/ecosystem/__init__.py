"""Libraries around torch, each with a small model that is trained, saved and loaded."""
