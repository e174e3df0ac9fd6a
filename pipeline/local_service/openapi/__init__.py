"""The OpenAPI document of the local service, for programs and as a page for people."""
