"""Real gloo ranks."""
