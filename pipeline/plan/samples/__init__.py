"""Rows of the source that a plan shows: examples for checks, and rows next to the events that they become."""
