"""A page of the OpenAPI document for people: plain HTML, no script, nothing from the internet."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
details { border: 1px solid #8886; border-radius: .4rem; margin: .4rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, monospace; font-size: .9rem; }
pre { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; border-bottom: 1px solid #8884; padding: .2rem .6rem .2rem 0; }
b.method { display: inline-block; min-width: 4.5rem; }
"""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""The headers of the page."""


def render_document(document: dict[str, Any]) -> str:
    """The page."""
    shown = document["info"]
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(path, method, operation))
    sections = "".join(f"<h2>{escape(tag)}</h2>{''.join(found)}" for tag, found in groups.items())
    schemas = "".join(
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>{_json(schema)}</details>'
        for name, schema in document["components"]["schemas"].items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(shown['title'])}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(shown['title'])}</h1><p>{escape(shown['description'])}</p>"
        '<p>The same for programs: <a href="/openapi.json">/openapi.json</a></p>'
        f"<main>{sections}<h2>Objects</h2>{schemas}</main></body></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    parts = [f"<p>{escape(operation.get('description', ''))}</p>"]
    parameters = operation.get("parameters", [])
    if parameters:
        rows = "".join(
            f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td>"
            f"<td>{escape(_kind(one['schema']))}</td><td>{escape(one.get('description', ''))}</td></tr>"
            for one in parameters
        )
        parts.append(f"<table><tr><th>parameter</th><th>in</th><th>type</th><th></th></tr>{rows}</table>")
    if "requestBody" in operation:
        content = next(iter(operation["requestBody"]["content"].values()))
        parts.append(f"<h4>Body</h4>{_schema(content['schema'])}")
    answers = "".join(
        f"<tr><td>{escape(status)}</td><td>{escape(answer['description'])}</td><td>{_answer(answer)}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    parts.append(f"<table><tr><th>status</th><th>when</th><th>body</th></tr>{answers}</table>")
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><b class="method">{method.upper()}</b> '
        f"<code>{escape(path)}</code> {escape(operation['summary'])}</summary>{''.join(parts)}</details>"
    )


def _answer(answer: dict[str, Any]) -> str:
    content = answer.get("content")
    if not content:
        return "empty"
    kind, shape = next(iter(content.items()))
    return _schema(shape["schema"]) if "json" in kind else escape(kind)


def _schema(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}"><code>{name}</code></a>'
    return _json(schema)


def _json(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2))}</pre>"


def _kind(schema: dict[str, Any]) -> str:
    found = schema.get("type") or next((one["type"] for one in schema.get("anyOf", ())), "any")
    return " or ".join(found) if isinstance(found, list) else str(found)
