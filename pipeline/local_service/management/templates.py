"""The templates of hog functions: a few common ones (docs/know/service.md#hog-functions).

Their ids are those of the real service; their code is only as much as the local service needs, which runs none.
"""

from __future__ import annotations

from pipeline.local_service.management.requests import Json


def _item(key: str, kind: str, label: str, **more: object) -> Json:
    return {"key": key, "type": kind, "label": label, "required": False, "secret": False, "hidden": False} | more


def _template(id: str, name: str, description: str, hog: str, schema: list[Json], **more: object) -> Json:
    return {
        "id": id,
        "name": name,
        "description": description,
        "type": "destination",
        "kind": "",
        "status": "stable",
        "free": True,
        "category": ["Custom"],
        "hog": hog,
        "inputs_schema": schema,
        "filters": {},
        "masking": {},
        "mappings": [],
        "mapping_templates": [],
        "icon_url": f"/static/services/{id.removeprefix('template-')}.png",
    } | more


TEMPLATES = {
    template["id"]: template
    for template in (
        _template(
            "template-webhook",
            "HTTP Webhook",
            "Sends every event to a URL.",
            "fetch(inputs.url, {'method': inputs.method, 'headers': inputs.headers, 'body': inputs.body})",
            [
                _item("url", "string", "Webhook URL", required=True),
                _item("method", "string", "Method", default="POST"),
                _item("body", "json", "JSON body", default={"event": "{event}", "person": "{person}"}),
                _item("headers", "dictionary", "Headers", default={"Content-Type": "application/json"}),
                _item("debug", "boolean", "Log responses", default=False),
            ],
        ),
        _template(
            "template-slack",
            "Slack",
            "Sends a message to a Slack channel.",
            "fetch('https://slack.com/api/chat.postMessage', {'method': 'POST', 'body': {'text': inputs.text}})",
            [
                _item("slack_workspace", "integration", "Slack workspace", required=True, integration="slack"),
                _item("channel", "integration_field", "Channel", required=True, integration_key="slack_workspace"),
                _item("text", "string", "Text", default="*{person.name}* triggered {event.event}"),
            ],
            free=False,
            category=["Customer Success"],
        ),
        _template(
            "template-geoip",
            "GeoIP",
            "Adds the place of an event's address to its properties.",
            "return geoipLookup(event.properties.$ip)",
            [],
            type="transformation",
            category=["Transformation"],
        ),
    )
}


def template_of(id: str) -> Json:
    """The template with this id. The contract lists none, so any id is a template of that name; {} for ""."""
    return TEMPLATES.get(id) or (_template(id, id, "", "", []) if id else {})
