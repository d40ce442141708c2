"""What findings look like: figures from the observations that a verdict was based on."""
