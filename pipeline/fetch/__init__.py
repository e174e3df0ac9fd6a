"""`backcast fetch`: downloads a window of a tool's events into a folder, or writes the rows of a query to a file, which
`plan` then reads like any export.

    tool        what a tool is: hosts, keys, limits, windows; and the registry of those in `tools`
    tools       one file per tool, found automatically
    checking    whether a downloaded file is complete, and how many events it has
    transport   requests to a tool: its limits, retries, Retry-After, certificates; the tools' only way to connect
    folder      the files and the manifest, atomically and durably
    run         window by window: fetch, divide, commit
    query       the rows of a DuckDB query, as a Parquet file
    database    the rows of a query of another database, through its ADBC driver, which connects by itself

Nothing is streamed into sending: an export differs between two calls (order, late events), and a plan must be able to
read its source again, byte for byte.
"""

from __future__ import annotations
