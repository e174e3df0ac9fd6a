"""The hog functions of the public Terraform provider (PostHog/terraform-provider-posthog), replayed over HTTP.

Terraform does not run here. By the provider's public source (`hog_function.go` in `internal/httpclient` and
`internal/resource`) a field that is null or empty is not sent, and of an answer only what the configuration names is
compared. A step fails when the state after it is not the configuration, or when a refresh then finds a difference.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.contract_table import exact, holds
from tests.support.management_service import Asking, shared

pytestmark = pytest.mark.slow

PATHS = ("/api/environments/1/hog_functions/", "/api/projects/1/hog_functions/")
"""Where older and newer versions of the provider ask."""


@pytest.fixture(params=list(zip(["contract", "observed"], PATHS, strict=True)), ids=["contract", "observed"])
def resource(request: pytest.FixtureRequest) -> Resource:
    """In either behaviour, as an older and as a newer version of the provider asks."""
    behaviour, path = request.param
    return Resource(shared(behaviour), path)


class Resource:
    """One resource, as the provider manages it. `state` is what it knows after each step."""

    def __init__(self, ask: Asking, path: str) -> None:
        self._ask = ask
        self._path = path
        self.state: dict[str, Any] = {}

    def apply(self, config: dict[str, Any]) -> None:
        """Create or update, then the two checks of Terraform."""
        body = {name: value for name, value in config.items() if value not in (None, {}, [])}
        if self.state.get("description") and "description" not in config:
            body["description"] = ""  # the one field that is emptied when it leaves the configuration
        if self.state:
            self.state = self._call("PATCH", self._path + self.state["id"] + "/", body)
        else:
            self.state = self._call("POST", self._path, body, status=201)
        template = (self.state.get("template") or {}).get("id")
        found = self.state | {"template_id": template or self.state.get("template_id")}
        assert [name for name, value in config.items() if not holds(found[name], value)] == []
        assert {type(self.state["status"][name]) for name in ("state", "tokens")} == {int}
        assert exact(self._call("GET", self._path + self.state["id"] + "/")) == exact(self.state)

    def destroy(self) -> None:
        """A soft deletion by PATCH; afterwards the function is not found."""
        path = self._path + self.state["id"] + "/"
        self._call("PATCH", path, {"deleted": True})
        self._call("GET", path, status=404)

    def _call(self, method: str, path: str, body: object = None, status: int = 200) -> dict[str, Any]:
        answer = self._ask(method, path, body)
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found


def hog_input(value: object) -> dict[str, Any]:
    return {"value": value, "templating": "hog"}


ADDRESS = {"url": hog_input("https://example.com/hook"), "method": hog_input("POST")}
WHOLE = ADDRESS | {
    "body": hog_input({"event": "{event.event}", "at": "{event.timestamp}"}),
    "headers": hog_input({"Content-Type": "application/json"}),
}
PAGEVIEW = {"id": "$pageview", "name": "$pageview", "type": "events"}
FILTERS = {"source": "events", "events": [PAGEVIEW], "filter_test_accounts": False}
WEBHOOK: dict[str, Any] = {
    "name": "tf-webhook",
    "description": "A webhook",
    "type": "destination",
    "enabled": True,
    "template_id": "template-webhook",
    "inputs": WHOLE,
    "filters": FILTERS,
}
SMALL = WEBHOOK | {"inputs": ADDRESS}
CODE = "let payload := {'body': inputs.body};\nif (inputs.debug) { print(payload) }\nfetch(inputs.url, payload);\n"


def test_a_webhook_is_made_from_its_template_changed_and_destroyed(resource: Resource) -> None:
    """`hog` stands beside a template, to its last line break. An update that sends fewer inputs leaves those alone; a
    description that is not configured is emptied."""
    resource.apply(WEBHOOK)
    resource.apply(WEBHOOK | {"name": "tf-renamed", "hog": CODE})
    resource.apply(SMALL | {"name": "tf-renamed", "enabled": False})
    assert set(resource.state["inputs"]) == set(ADDRESS)
    other = {"id": "custom", "name": "custom", "type": "events"}
    resource.apply(SMALL | {"enabled": True, "filters": FILTERS | {"events": [PAGEVIEW, other]}})
    resource.apply({name: value for name, value in SMALL.items() if name != "description"})
    assert not resource.state["description"]
    resource.destroy()


def test_a_function_for_alerts_of_the_service(resource: Resource) -> None:
    """Another type than the template's, an input that is false, a filter by property."""
    by_alert = {"key": "alert_id", "type": "event", "value": "0190c0de", "operator": "exact"}
    firing = {"source": "events", "events": [{"id": "$insight_alert_firing", "type": "events"}]}
    inputs = WHOLE | {"debug": hog_input(False)}
    filters = firing | {"properties": [by_alert]}
    resource.apply(WEBHOOK | {"type": "internal_destination", "inputs": inputs, "filters": filters})
    resource.destroy()


def test_each_json_attribute_is_kept_as_it_was_configured(resource: Resource) -> None:
    """Schema, masking and mappings beside inputs of any JSON and filters, through an update of each."""
    schema = [{"key": "eventName", "type": "json", "label": "Event name", "required": False, "secret": False}]
    inputs = {"eventName": {"value": "PageView"}}
    mapping = {"name": "Page view", "filters": {"events": [PAGEVIEW]}, "inputs_schema": schema, "inputs": inputs}
    config: dict[str, Any] = {
        "name": "tf-json",
        "type": "destination",
        "hog": "return inputs.eventName",
        "inputs_schema": schema,
        "inputs": {"eventName": hog_input("Purchase")},
        "masking": {"ttl": 3600, "threshold": 5, "hash": "{person.id}"},
        "mappings": [mapping],
    }
    resource.apply(config)
    resource.apply(config | {"masking": {"ttl": 7200, "threshold": 5, "hash": "{person.id}"}})
    for value in ("Checkout", {"a": ["b", 1]}, 0, 1.5, False, True, [], ["x"]):
        resource.apply(config | {"inputs": {"eventName": hog_input(value)}, "mappings": [mapping | {"name": "Other"}]})
    resource.destroy()
