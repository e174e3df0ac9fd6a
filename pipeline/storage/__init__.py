"""Files by name: on this machine, or in an object store, where a name is a URL (`s3://bucket/key`).

Stores are read through fsspec's file systems, which are extras of this package. Credentials, regions and endpoints are
found where the store's own tools find them, so plans and logs never contain them; the libraries also do the retries. No
listing is cached: the store is asked each time whether a file has changed.

    one_file      one file or object
    many_files    folders, prefixes, and many files at once
    listing       pages of what is below a prefix
    store         URLs as people write them, the file system of a store, its errors, ranges of an object
    streams       an object as a stream

The rest of the package imports only `pipeline.storage`.
"""

from pipeline.storage.many_files import (
    SMALL_BYTES,
    ahead,
    below,
    folders_in,
    heads,
    is_prefix,
    is_small_object,
    listed,
    names_in,
    statuses,
)
from pipeline.storage.one_file import (
    create,
    download,
    is_file,
    opened,
    opened_at_strides,
    read,
    read_range,
    refuse_replacing,
    remove,
    status,
    upload,
    write,
)
from pipeline.storage.store import FileStatus, StoreError, is_remote, refuse_foreign, without_credentials

__all__ = [
    "SMALL_BYTES", "FileStatus", "StoreError", "ahead", "below", "create", "download", "folders_in", "heads", "is_file",
    "is_prefix", "is_remote", "is_small_object", "listed", "names_in", "opened", "opened_at_strides", "read",
    "read_range", "refuse_foreign", "refuse_replacing", "remove", "status", "statuses", "upload",
    "without_credentials", "write",
]  # fmt: skip
