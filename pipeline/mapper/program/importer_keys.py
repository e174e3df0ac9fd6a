"""Keys of the service's own importer, which a mapping may have besides those of the tool."""

from __future__ import annotations

from pipeline.mapper.language.sections import Mapping
from pipeline.models import SealedOptions


def is_importer_key(mapping: Mapping, options: SealedOptions) -> bool:
    """Whether keys are those of the service's own importer (`--set uuid=posthog`)."""
    if mapping.key is None or mapping.key.posthog is None:
        return False
    return options.settings.get("uuid", "") == "posthog"
