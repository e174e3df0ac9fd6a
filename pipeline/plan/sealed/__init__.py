"""A plan as files: written once, sealed by digests, and checked whenever it is read."""
