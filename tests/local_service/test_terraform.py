"""The hog functions of the public Terraform provider (PostHog/terraform-provider-posthog), replayed over HTTP.

Terraform itself does not run here. What the provider sends and what its acceptance tests expect was read from its
public source, `internal/httpclient/hog_function.go`, `internal/resource/hog_function.go` and the acceptance tests, and
is done again by `Resource`: a field that is null or empty is not sent; of an answer `bytecode` and `order` are left
out everywhere, and of the rest only what the configuration names is compared. Terraform fails a step when the state
after an apply is not the configuration, or when a refresh right after it finds a difference.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.contract_table import exact
from tests.support.management_service import ALL, Asking, shared

pytestmark = pytest.mark.slow

PATHS = ("/api/environments/1/hog_functions/", "/api/projects/1/hog_functions/")
"""Where older and newer versions of the provider ask."""
JSON_FIELDS = ("inputs_schema", "inputs", "filters", "masking", "mappings")
PLAIN_FIELDS = ("type", "name", "description", "enabled", "hog", "icon_url", "execution_order")
COMPILED = ("bytecode", "order")


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
            answer = self._call("PATCH", self._path + self.state["id"] + "/", body)
        else:
            answer = self._call("POST", self._path, body, status=201)
        self.state = read(answer, config)
        assert exact({name: self.state[name] for name in config}) == exact(config)
        assert exact(read(self._get(), config)) == exact(self.state)

    def imported(self) -> dict[str, Any]:
        """The state that an import by id makes, without a configuration."""
        return read(self._get(), {})

    def destroy(self) -> None:
        """A soft deletion by PATCH; afterwards the function is not found."""
        self._call("PATCH", self._path + self.state["id"] + "/", {"deleted": True})
        self._get(status=404)

    def _get(self, status: int = 200) -> dict[str, Any]:
        return self._call("GET", self._path + self.state["id"] + "/", None, status)

    def _call(self, method: str, path: str, body: object, status: int = 200) -> dict[str, Any]:
        answer = self._ask(method, path, body, key=ALL, headers={"content-type": "application/json"})
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found


def read(answer: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """The state of an answer; `template_id` is that of the template object where the configuration has none."""
    assert type(answer["status"]["state"]) is int  # the provider decodes both into integers
    assert type(answer["status"]["tokens"]) is int
    state: dict[str, Any] = {"id": answer["id"]}
    for name in PLAIN_FIELDS:
        value = answer.get(name)
        state[name] = None if isinstance(value, str) and not value.strip() else value
    for name in JSON_FIELDS:
        found = without(answer.get(name), COMPILED)
        state[name] = named(config[name], found) if name in config and found else found or config.get(name)
    state["template_id"] = config.get("template_id") or (answer.get("template") or {}).get("id") or None
    return state


def without(value: Any, names: tuple[str, ...]) -> Any:
    """A JSON value without members of these names, at any depth."""
    if isinstance(value, dict):
        return {name: without(inner, names) for name, inner in value.items() if name not in names}
    return [without(inner, names) for inner in value] if isinstance(value, list) else value


def named(config: Any, found: Any) -> Any:
    """The part of a JSON value that the configuration names."""
    if isinstance(config, dict) and isinstance(found, dict):
        return {name: named(value, found[name]) for name, value in config.items() if name in found}
    if isinstance(config, list) and isinstance(found, list) and len(config) == len(found):
        return [named(value, inner) for value, inner in zip(config, found, strict=True)]
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
    """Inputs hold texts and objects; an import finds the same, but for the JSON that holds more than was configured.

    `hog` stands beside a template, to its last line break. An update that sends fewer inputs leaves those alone; a
    description that is not configured is emptied. The filters may be of two events.
    """
    resource.apply(WEBHOOK)
    imported = resource.imported()
    for name in ("id", "type", "name", "description", "enabled", "icon_url", "execution_order", "template_id",
                 "masking", "mappings"):  # fmt: skip
        assert imported[name] == resource.state[name], name
    resource.apply(WEBHOOK | {"name": "tf-renamed", "hog": CODE})
    assert resource.imported()["hog"] == CODE
    resource.apply(SMALL | {"name": "tf-renamed", "enabled": False})
    assert set(resource.imported()["inputs"]) == set(ADDRESS)
    other = {"id": "custom", "name": "custom", "type": "events"}
    resource.apply(SMALL | {"enabled": True, "filters": FILTERS | {"events": [PAGEVIEW, other]}})
    resource.apply({name: value for name, value in SMALL.items() if name != "description"})
    assert resource.imported()["description"] is None
    resource.destroy()


def test_a_function_for_alerts_of_the_service(resource: Resource) -> None:
    """Another type than the template's, an input that is false, a filter by property."""
    by_alert = {"key": "alert_id", "type": "event", "value": "0190c0de", "operator": "exact"}
    firing = {"source": "events", "events": [{"id": "$insight_alert_firing", "type": "events"}]}
    filters = firing | {"properties": [by_alert]}
    inputs = WHOLE | {"debug": hog_input(False)}
    resource.apply(WEBHOOK | {"type": "internal_destination", "inputs": inputs, "filters": filters})
    resource.destroy()


def test_each_json_attribute_is_kept_as_it_was_configured(resource: Resource) -> None:
    """Schema, masking and mappings beside inputs and filters, through an update of each."""
    schema = [{"key": "eventName", "type": "string", "label": "Event name", "required": True, "secret": False}]
    mapping = {
        "name": "Page view",
        "filters": {"events": [{"id": "$pageview", "type": "events"}]},
        "inputs_schema": schema,
        "inputs": {"eventName": {"value": "PageView"}},
    }
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
    resource.apply(config | {"inputs": {"eventName": hog_input("Checkout")}, "mappings": [mapping | {"name": "Other"}]})
    resource.destroy()


def test_an_input_holds_any_json(resource: Resource) -> None:
    """Objects, numbers, booleans and lists are configured as they are, and no difference is found."""
    schema = [{"key": "payload", "type": "json", "required": False, "secret": False}]
    function = {"name": "tf-any", "hog": "return 1", "inputs_schema": schema}
    for value in ("text", {"a": ["b", 1]}, 0, 1.5, False, True, [], ["x"]):
        resource.apply(function | {"inputs": {"payload": {"value": value}}})
    resource.destroy()
