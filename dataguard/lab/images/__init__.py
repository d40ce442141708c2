"""Colour charts in place of decoded images."""
