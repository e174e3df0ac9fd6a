"""The project and its keys.

An unknown capture key of a good shape is answered 200, and its events are lost (docs/know/service.md#answers). So a
shape proves nothing; the project's own `api_token`, or reading back what was sent, does.
"""

from __future__ import annotations

from pipeline.config import PROJECT_KEY, project_key_fault
from pipeline.management.operations import CURRENT_PROJECT, RETRIEVE_BILLING
from pipeline.management.problems import NotFound, ServiceProblem, UnexpectedAnswer
from pipeline.preflight.check import Check, check, could_not_ask
from pipeline.preflight.project import PROJECT, is_key_of, named
from pipeline.preflight.target import Target
from pipeline.targets import region_of

SHAPE = "capture_key"
KEY_PROJECT = "capture_key_project"
PAID_PLAN = "paid_plan"
_PROVED_BY = "prove it with a personal key of the scope project:read, or by reading back one sent batch"
_LOOK = "look at the billing page of the organization"


@check(20, SHAPE)
def check_key_shape(target: Target) -> Check:
    """Has the capture key the shape of one?"""
    key, cloud = target.request.project_key, bool(region_of(target.request.to))
    if key is None:
        hint = f"set {PROJECT_KEY}, or give --project-key-file FILE"
        return Check(SHAPE, "unknown", "no capture key was given", hint)
    fault = project_key_fault(key.reveal(), cloud=cloud)
    if fault is not None:
        return Check(SHAPE, "stop" if fault.stops else "warning", fault.message, fault.hint)
    return Check(SHAPE, "ok", "the capture key has the shape of one")


@check(40, PROJECT, needs="personal key")
def check_project(target: Target) -> Check:
    """Which project would the events go to?"""
    return target.found.check


@check(50, KEY_PROJECT, needs="personal key")
def check_key_project(target: Target) -> Check:
    """Does the capture key belong to the project?"""
    key, project, others = target.request.project_key, target.found.project, target.found.others
    if key is None:
        return Check(KEY_PROJECT, "unknown", "no capture key was given")
    if project is None:
        return Check(
            KEY_PROJECT, "unknown", "no project could be looked at, and an unknown key is answered 200", _PROVED_BY
        )
    own = is_key_of(key, project)
    if own is None:
        return Check(KEY_PROJECT, "unknown", "the personal key may not read the project's capture key", _PROVED_BY)
    if own:
        return Check(KEY_PROJECT, "ok", f"the capture key is that of project {named(project)}")
    other = next((one for one in others if is_key_of(key, one)), None)
    whose = f"that of project {named(other)}, not" if other is not None else "not that"
    hint = f"take the capture key of project {named(project)}, or name the other project with --project"
    return Check(KEY_PROJECT, "stop", f"the capture key is {whose} of project {named(project)}", hint)


@check(60, PAID_PLAN, needs="project")
def check_paid_plan(target: Target) -> Check:
    """Has the project's organization the paid plan that an import needs?

    The contract has no operation for it (docs/know/service.md#before-an-import). The service has one, with the
    scope billing:read, which shows the organization that the key's user looked at last: its answer counts only where
    that is the project's own.
    """
    client, project = target.client, target.found.project or {}
    assert client is not None
    try:
        billing = client.call(RETRIEVE_BILLING).json()
        current = client.call(CURRENT_PROJECT).json()
    except (NotFound, UnexpectedAnswer):
        return Check(PAID_PLAN, "unknown", "the management API does not say whether a paid plan is active", _LOOK)
    except ServiceProblem as error:
        found = could_not_ask(PAID_PLAN, error)
        return Check(PAID_PLAN, "unknown", found.detail, _LOOK)
    organization = project.get("organization")
    if not organization or not isinstance(current, dict) or current.get("organization") != organization:
        detail = "the management API speaks of another organization's plan, or does not say whose"
        return Check(PAID_PLAN, "unknown", detail, _LOOK)
    products = billing.get("products") if isinstance(billing, dict) else None
    subscribed = [
        one.get("subscribed")
        for one in (products if isinstance(products, list) else ())
        if isinstance(one, dict) and one.get("type") == "product_analytics"
    ]
    if True in subscribed:
        return Check(PAID_PLAN, "ok", "the organization has a paid plan for product analytics")
    if False in subscribed:
        detail = "the organization has no paid plan for product analytics, which an import needs"
        return Check(PAID_PLAN, "warning", detail, "activate it on the billing page; historical events stay free")
    return Check(PAID_PLAN, "unknown", "the management API does not say whether a paid plan is active", _LOOK)
