"""A paid plan for product analytics, which an import needs (docs/know/service.md#before-an-import, rule 1).

The contract shows no way to ask. The service's source has one, `GET /api/billing/` with the scope
billing:read (PostHog/posthog, ee/api/billing.py), which speaks of the organization that the key's user looked at last:
its answer counts only where that is the project's own. Whatever it does not say is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipeline.management.operations import CURRENT_PROJECT, RETRIEVE_BILLING
from pipeline.management.problems import NotFound, ServiceProblem, UnexpectedAnswer
from pipeline.preflight.check import Check, untold

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient

NAME = "paid_plan"
_LOOK = "look at the billing page of the organization"


def check_paid_plan(client: ManagementClient, project: Mapping[str, Any]) -> Check:
    """Ask, and believe only what is said of this project's organization."""
    try:
        billing = client.call(RETRIEVE_BILLING).json()
        current = client.call(CURRENT_PROJECT).json()
    except (NotFound, UnexpectedAnswer):
        return Check(NAME, "unknown", "the management API does not say whether a paid plan is active", _LOOK)
    except ServiceProblem as error:
        found = untold(NAME, error)
        return Check(NAME, "unknown", found.detail, _LOOK)
    organization = project.get("organization")
    if not organization or not isinstance(current, dict) or current.get("organization") != organization:
        detail = "the management API speaks of another organization's plan, or does not say whose"
        return Check(NAME, "unknown", detail, _LOOK)
    products = billing.get("products") if isinstance(billing, dict) else None
    subscribed = [
        one.get("subscribed")
        for one in (products if isinstance(products, list) else ())
        if isinstance(one, dict) and one.get("type") == "product_analytics"
    ]
    if True in subscribed:
        return Check(NAME, "ok", "the organization has a paid plan for product analytics")
    if False in subscribed:
        detail = "the organization has no paid plan for product analytics, which an import needs"
        return Check(NAME, "warning", detail, "activate it on the billing page; historical events stay free")
    return Check(NAME, "unknown", "the management API does not say whether a paid plan is active", _LOOK)
