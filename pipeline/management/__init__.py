"""The service's management API: a typed client for hog functions, session recordings, projects and queries.

    from pipeline.config import personal_key
    from pipeline.management import ManagementClient

    with ManagementClient("eu", personal_key(), "12345") as client:
        for function in client.hog_functions.list(enabled=True):
            print(function.name, function.execution_order)

`pipeline.management.models` has the objects, `pipeline.management.problems` the errors. Importing this is cheap; the
HTTP library and the models are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.lazily import lazily

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient, QueryAnswer

__all__ = ["ManagementClient", "QueryAnswer"]
__getattr__ = lazily(__name__, {"client": "ManagementClient QueryAnswer"})
