"""The query endpoint: read-only SELECTs over what landed, run in a separate process with limits.

`endpoint` answers requests, `runner` starts and stops the process, `worker` runs inside it, and `protocol` is what the
two send each other.
"""
