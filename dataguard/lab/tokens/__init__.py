"""Batches of tokens: rows, labels, masks and packed documents."""
