"""A plan directory in a bucket: published whole, and used by way of a working copy on this machine.

    URL/plan.json               marks this prefix as backcast's; it never changes
    URL/published-000001.json   which plan counts, with the digest of each of its files; the greatest number counts
    URL/published-000002.json   the same plan, and who sends it
    URL/plan-…/                 the files of that plan, and what people read of it

An object store can neither lock nor rename. What it does is to create an object that must not be there yet, so every
change of a prefix is one object with the next number: a plan takes the place of another one, or is claimed to be sent,
whole or not at all, and of two that want the same number one gets it. So no plan is replaced while it is claimed.

The ledger stays in the working copy. It has to be durable before and after each request, for one process at a time,
and a store neither appends nor locks.
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
