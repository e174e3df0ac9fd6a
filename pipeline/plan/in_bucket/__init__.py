"""A plan directory in a bucket: published as a whole, and used through a working copy on this machine.

    URL/plan.json               marks this prefix as backcast's; it never changes
    URL/published-000001.json   which plan counts, with the digest of each of its files; the greatest number counts
    URL/published-000002.json   the same plan, and who sends it
    URL/plan-…/                 the files of that plan, and what people read about it

An object store can neither lock nor rename. But it can create an object only if it does not exist yet, so every change
of a prefix is one object with the next number: a plan replaces another one, or is claimed for sending. Each change
happens completely or not at all, and if two processes want the same number, one of them gets it. So no plan is
replaced while it is claimed.

The ledger stays in the working copy. It must be durable before and after each request, and belong to one process at a
time; a store can neither append nor lock.
"""

from pipeline.plan.in_bucket.discarding import publish_discarded, remove_objects
from pipeline.plan.in_bucket.publish import claim, published_plan
from pipeline.plan.in_bucket.working_copy import copy_results, directory_at, file_here, named

__all__ = [
    "claim",
    "copy_results",
    "directory_at",
    "file_here",
    "named",
    "publish_discarded",
    "published_plan",
    "remove_objects",
]
