"""The database of the local service: its tables, the views that queries read, and the values that leave it."""
