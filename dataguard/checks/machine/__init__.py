"""Memory, handles and threads (DG6)."""
