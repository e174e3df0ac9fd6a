"""The project and its keys.

An unknown capture key with a valid shape is answered 200, and its events are lost (docs/know/service.md#answers). So
the shape proves nothing; the project's own `api_token`, or reading back what was sent, does.
"""

from __future__ import annotations

from pipeline.config import PROJECT_KEY, project_key_fault
from pipeline.management.operations import CURRENT_PROJECT, RETRIEVE_BILLING
from pipeline.management.problems import NotFound, ServiceProblem, UnexpectedAnswer
from pipeline.preflight.check import check, check_of_error
from pipeline.preflight.project import PROJECT, is_key_of, named
from pipeline.preflight.target import Target
from pipeline.report.records import Check
from pipeline.targets import region_of

SHAPE = "capture_key"
KEY_PROJECT = "capture_key_project"
PAID_PLAN = "paid_plan"
_PROVED_BY = "prove it with a personal key that has the scope project:read, or by reading back one sent batch"
_BILLING = "check the billing page of the organization"


@check(20, SHAPE)
def check_key_shape(target: Target) -> Check:
    """Does the capture key have a valid shape?"""
    key, cloud = target.request.project_key, bool(region_of(target.request.to))
    if key is None:
        hint = f"set {PROJECT_KEY}, or give --project-key-file FILE"
        return Check(SHAPE, "unknown", "there is no capture key", hint)
    fault = project_key_fault(key.reveal(), cloud=cloud)
    if fault is not None:
        return Check(SHAPE, "stop" if fault.stops else "warning", fault.message, fault.hint)
    return Check(SHAPE, "ok", "the capture key has a valid shape")


@check(40, PROJECT, needs="personal key")
def check_project(target: Target) -> Check:
    """Which project would the events go to?"""
    return target.project.check


@check(50, KEY_PROJECT, needs="personal key")
def check_key_project(target: Target) -> Check:
    """Does the capture key belong to the project?"""
    key, project = target.request.project_key, target.project.record
    if key is None:
        return Check(KEY_PROJECT, "unknown", "there is no capture key")
    if project is None:
        detail = "cannot read a project, and the service answers 200 to unknown keys too"
        return Check(KEY_PROJECT, "unknown", detail, _PROVED_BY)
    own = is_key_of(key, project)
    if own is None:
        return Check(KEY_PROJECT, "unknown", "the personal key may not read the project's capture key", _PROVED_BY)
    if own:
        return Check(KEY_PROJECT, "ok", f"the capture key is that of project {named(project)}")
    other = next((listed for listed in target.project.listed if is_key_of(key, listed)), None)
    owner = f"that of project {named(other)}, not" if other is not None else "not that"
    hint = f"use the capture key of project {named(project)}, or name the other project with --project"
    return Check(KEY_PROJECT, "stop", f"the capture key is {owner} of project {named(project)}", hint)


@check(60, PAID_PLAN, needs="project")
def check_paid_plan(target: Target) -> Check:
    """Does the project's organization have the paid plan that an import needs?

    The contract has no operation for it (docs/know/service.md#before-an-import). The service has one, with the
    scope billing:read, for the organization that the key's user opened last: its answer counts only if that is
    the project's own.
    """
    client, project = target.client, target.project.record or {}
    assert client is not None
    try:
        billing = client.call(RETRIEVE_BILLING).json()
        current = client.call(CURRENT_PROJECT).json()
    except (NotFound, UnexpectedAnswer):
        return Check(PAID_PLAN, "unknown", "the management API does not show whether a paid plan is active", _BILLING)
    except ServiceProblem as error:
        return Check(PAID_PLAN, "unknown", check_of_error(PAID_PLAN, error).detail, _BILLING)
    organization = project.get("organization")
    if not organization or not isinstance(current, dict) or current.get("organization") != organization:
        detail = "the management API shows the plan of another organization, or of one without a name"
        return Check(PAID_PLAN, "unknown", detail, _BILLING)
    products = billing.get("products") if isinstance(billing, dict) else None
    subscribed = [
        product.get("subscribed")
        for product in (products if isinstance(products, list) else ())
        if isinstance(product, dict) and product.get("type") == "product_analytics"
    ]
    if True in subscribed:
        return Check(PAID_PLAN, "ok", "the organization has a paid plan for product analytics")
    if False in subscribed:
        detail = "the organization has no paid plan for product analytics, which an import needs"
        return Check(PAID_PLAN, "warning", detail, "activate it on the billing page; historical events stay free")
    return Check(PAID_PLAN, "unknown", "the management API does not show whether a paid plan is active", _BILLING)
