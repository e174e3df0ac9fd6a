"""The query endpoint: read-only SELECTs over what landed, run in a process of their own with limits.

`endpoint` answers requests, `runner` starts and stops the process, `worker` is what runs inside it, and `protocol` is
what the two send each other.
"""
