"""The ordinary epoch and the whole one."""
