"""The ordinary epoch and the full one."""
